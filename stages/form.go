package stages

import (
	"errors"
	"io"
	"mime"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
)

// Form stands in the place of [Body] where the body is the multipart form of a transcription. It reads the form, checks its fields and
// writes it anew for the worker: the file under its name and type, the model, and the fields that are documented. Others are read and
// dropped. It is sent in one attempt.
//
// Errors: 400 invalid_multipart for a body that is no form; 400 missing_required_parameter or invalid_value for a field, which is named;
// 413 request_body_too_large for a form that grows over the limit; 408 and 400 if the client does not send all of it.
func Form(s BodySettings, m *Models) pipeline.Stage { return &form{body{s, Transcriptions}, m} }

type form struct {
	body
	models *Models
}

var (
	_ pipeline.Stage      = (*form)(nil)
	_ pipeline.Contracted = (*form)(nil)
)

func (*form) Name() string { return "form" }

func (s *form) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	boundary, ok := boundaryOf(x.Client.Header("Content-Type"))
	if !ok {
		return badRequest("invalid_multipart", "", "The request body must be sent as multipart/form-data with a boundary.")
	}
	if s.Stall > 0 {
		x.Client.SetReadTimeout(s.Stall)
	}
	memory := bodies.Get().(*[]byte)
	defer giveBack(memory)
	if err := s.rewrite(x, memory, boundary); err != nil {
		return err
	}
	if s.Stall > 0 {
		x.Client.SetReadTimeout(0)
	}
	defer func(c pipeline.Client) { x.Client = c }(x.Client)
	x.Client = &formClient{x.Client, x}
	return next(x)
}

// boundaryOf is what separates the parts of a form with that content type.
func boundaryOf(contentType string) (boundary string, ok bool) {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "multipart/form-data" {
		return "", false
	}
	boundary = params["boundary"]
	return boundary, boundary != "" && len(boundary) <= 70 && strings.TrimRight(boundary, " ") == boundary // RFC 2046
}

// rewrite reads the client's form and makes of it the one that is sent. Streamed stands for one attempt. Stream stays as it is: the
// worker's answer is relayed as what the worker says that it is, whatever was asked for.
func (s *form) rewrite(x *pipeline.Exchange, memory *[]byte, boundary string) error {
	from := &formSource{x: x, left: s.MaxBytes}
	t := newTranscription(*memory, min(x.Client.ContentLength(), kept))
	if err := t.read(from, boundary); err != nil {
		if from.failure != nil {
			return from.failure
		}
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	model := t.finish()
	*memory = t.out.Bytes()
	x.Body.Streamed, x.Body.Peeked, x.Body.ContentType = true, *memory, t.form.FormDataContentType()
	f := bodyFields.Fill(x)
	f.reset()
	f.set(fieldModel, model, false)
	return nil
}

// formSource is the client's form, as long as it is no longer than bodies may be.
type formSource struct {
	x       *pipeline.Exchange
	left    int64 // bytes
	failure error // of the client's, or its form's length; nil if all was well
}

func (s *formSource) Read(p []byte) (int, error) {
	defer s.x.Idled(s.x.Wait())
	n, err := s.x.Client.Read(p)
	s.left -= int64(n)
	switch {
	case s.left < 0:
		s.failure = forward.UploadTooLarge()
		return 0, s.failure
	case err != nil && !errors.Is(err, io.EOF):
		s.failure = uploadFailure(s.x, err)
		return n, s.failure
	}
	return n, err
}

// formClient is the client to the stages behind, to whom the form is as long as it is sent.
type formClient struct {
	pipeline.Client
	x *pipeline.Exchange
}

func (c *formClient) ContentLength() int64 { return int64(len(c.x.Body.Peeked)) }

// formModel is the model that a form names.
func formModel(x *pipeline.Exchange, f *fieldSet) string {
	return string(f.raw(x.Body.Peeked, fieldModel))
}

// renameFormModel puts the canonical model in the place of the one that the form names. The file stands in front of it and is not moved.
func renameFormModel(x *pipeline.Exchange, f *fieldSet, canonical string) {
	at := &f.spans[fieldModel]
	was := x.Body.Peeked
	tail := string(was[at.end:])
	x.Body.Peeked = append(append(was[:at.start], canonical...), tail...)
	at.end = at.start + uint32(len(canonical))
}
