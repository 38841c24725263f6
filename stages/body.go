package stages

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
)

// BodySettings say how bodies are read.
type BodySettings struct {
	MaxBytes int64         // of a body, declared or not
	Stall    time.Duration // longest wait for the client's next bytes; 0: no limit
}

// Body reads the request body, checks that it is one JSON object, notes where the fields are that others read, and checks the
// documented rules of its kind. Nothing of it is changed or decoded. Whatever is wrong is a 400 that names the field, and no
// worker hears of it.
//
// Of a body that is streamed it reads only the first bytes, all of them if they are few; see [Model].
func Body(s BodySettings, kind Kind) pipeline.Stage { return &body{s, kind} }

type body struct {
	BodySettings
	kind Kind
}

// bodyFields are the places of the body's fields. They are a fact of their own, since they concern the stages of this package
// alone.
var bodyFields = pipeline.NewFact[fieldSet]("body_fields")

var (
	_ pipeline.Stage      = (*body)(nil)
	_ pipeline.Contracted = (*body)(nil)
)

func (*body) Name() string { return "body" }

func (*body) Contract() pipeline.Contract {
	return pipeline.Contract{Gives: []pipeline.Fact{pipeline.Body, bodyFields}}
}

func (s *body) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if err := checkContentType(x.Client.Header("Content-Type")); err != nil {
		return err
	}
	if s.Stall > 0 {
		x.Client.SetReadTimeout(s.Stall)
	}
	memory := bodies.Get().(*[]byte)
	defer giveBack(memory)
	if x.Body.Streamed {
		if err := s.peek(x, memory); err != nil {
			return err
		}
		return next(x)
	}
	if err := checkContentEncoding(x.Client.Header("Content-Encoding")); err != nil {
		return err
	}
	if err := s.read(x, memory); err != nil {
		return err
	}
	if s.Stall > 0 {
		x.Client.SetReadTimeout(0)
	}
	if err := s.understand(x); err != nil {
		return err
	}
	return next(x)
}

// understand scans the body.
func (s *body) understand(x *pipeline.Exchange) error {
	f := bodyFields.Fill(x)
	if err := scanObject(x.Body.Bytes, f); err != nil {
		return err
	}
	if err := s.kind.validate(x.Body.Bytes, f); err != nil {
		return err
	}
	x.Body.Stream = fieldBool(x.Body.Bytes, f, fieldStream)
	return nil
}

// bodies is memory for bodies; what a request has used serves the next one.
var bodies = sync.Pool{New: func() any {
	memory := make([]byte, 0, 4<<10)
	return &memory
}}

// kept is how large memory may be that waits for another request.
const kept = 1 << 20

func giveBack(memory *[]byte) {
	if cap(*memory) <= kept {
		*memory = (*memory)[:0]
		bodies.Put(memory)
	}
}

// read reads the body into memory. One byte more than the body's length is asked for, so that its end is seen: from then on
// the server notices a client that leaves.
func (s *body) read(x *pipeline.Exchange, memory *[]byte) error {
	defer x.Idled(x.Wait())
	buf := *memory
	if n := x.Client.ContentLength(); n >= int64(cap(buf)) {
		buf = make([]byte, 0, min(n, kept)+1) // a client may declare more than it ever sends
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := x.Client.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		*memory, x.Body.Bytes = buf, buf
		switch {
		case int64(len(buf)) > s.MaxBytes:
			return forward.UploadTooLarge()
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return uploadFailure(x, err)
		}
	}
}

// readAhead is the declared length (bytes) up to which a streamed body is read whole before it goes on: it can then be sent
// again when the worker's connection turns out to be stale.
const readAhead = 64 << 10

// peek reads what is there of a streamed body; a short one to its end.
func (s *body) peek(x *pipeline.Exchange, memory *[]byte) error {
	defer x.Idled(x.Wait())
	length := x.Client.ContentLength()
	short := length <= readAhead
	buf := (*memory)[:cap(*memory)]
	if short && int64(len(buf)) < length {
		buf = make([]byte, length)
	}
	for read := 0; ; {
		n, err := x.Client.Read(buf[read:])
		read += n
		*memory, x.Body.Peeked = buf[:read], buf[:read]
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return uploadFailure(x, err)
		case err != nil || !short || int64(read) >= length:
			return nil
		}
	}
}
