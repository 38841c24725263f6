package stages

import (
	"errors"
	"io"
	"mime"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
)

// Form stands in the place of [Body] where the body is a multipart form: it goes to the worker as it comes, with the client's own
// content type, in one attempt. Of a long form it reads only the first bytes, in which the model may be; where models have to be told
// apart or renamed, as many as it takes to find it. What else is in the form is the engine's business.
//
// Errors: 400 invalid_multipart for a body that does not say that it is a form, or not what separates its parts; 413
// request_body_too_large for one that grows over the limit before its model has come.
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
	kind := x.Client.Header("Content-Type")
	boundary, ok := boundaryOf(kind)
	if !ok {
		return badRequest("invalid_multipart", "", "The request body must be sent as multipart/form-data with a boundary.")
	}
	if s.Stall > 0 {
		x.Client.SetReadTimeout(s.Stall)
	}
	memory := bodies.Get().(*[]byte)
	defer giveBack(memory)
	x.Body.Streamed, x.Body.ContentType = true, kind
	if err := s.peek(x, memory); err != nil {
		return err
	}
	if err := s.findModel(x, memory, boundary); err != nil {
		return err
	}
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

// findModel notes where the form names its model. If it has to, it reads on until it has come, or the form is over.
func (s *form) findModel(x *pipeline.Exchange, memory *[]byte, boundary string) error {
	f := bodyFields.Fill(x)
	f.reset()
	for whole := s.whole(x); ; {
		if model, found := formField(x.Body.Peeked, boundary, "model"); found {
			f.set(fieldModel, model, false)
			return nil
		}
		if whole || !s.matters() {
			return nil
		}
		err := s.readOn(x, memory)
		whole = errors.Is(err, io.EOF)
		if err != nil && !whole {
			return err
		}
	}
}

// whole tells whether nothing is left to read.
func (s *form) whole(x *pipeline.Exchange) bool {
	return int64(len(x.Body.Peeked)) == x.Client.ContentLength()
}

// matters tells whether the model decides who may serve the request, or what is sent.
func (s *form) matters() bool {
	return s.models.Required || s.models.Registry.ModelCount() > 1 || s.models.Registry.Aliased()
}

// readOn reads as many bytes again as there are. The error is io.EOF if those are the last.
func (s *form) readOn(x *pipeline.Exchange, memory *[]byte) error {
	defer x.Idled(x.Wait())
	buf := x.Body.Peeked
	read := len(buf)
	buf = append(buf, make([]byte, max(read, 4<<10))...)
	for read < len(buf) {
		n, err := x.Client.Read(buf[read:])
		read += n
		*memory, x.Body.Peeked = buf[:read], buf[:read]
		switch {
		case int64(read) > s.MaxBytes:
			return forward.UploadTooLarge()
		case errors.Is(err, io.EOF):
			return io.EOF
		case err != nil:
			return uploadFailure(x, err)
		}
	}
	return nil
}

// formModel is the model that a form names, "" if it has not been found.
func formModel(x *pipeline.Exchange, f *fieldSet) string {
	return strings.TrimSpace(string(f.raw(x.Body.Peeked, fieldModel)))
}

// renameFormModel puts the canonical model in the place of the one that the form names.
func renameFormModel(x *pipeline.Exchange, f *fieldSet, canonical string) {
	old, was := f.spans[fieldModel], x.Body.Peeked
	edited := make([]byte, 0, len(was)+len(canonical))
	edited = append(edited, was[:old.start]...)
	edited = append(edited, canonical...)
	f.spans[fieldModel].end = uint32(len(edited))
	x.Body.Peeked = append(edited, was[old.end:]...)
}
