package forward

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// receive takes the worker's answer to the client, or keeps it back if another attempt may follow.
func (f *forward) receive(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer) error {
	leg.Status = a.Status
	x.TellHead(leg, a.Status)
	kind := fieldValue(a.Fields, "Content-Type")
	fields := responseFields(a, leg.Worker)
	events := isEventStream(kind)
	good := a.Status >= 200 && a.Status <= 299
	switch {
	case x.Judge != nil && x.Judge.Hold(x, leg, a.Status):
		return f.hold(x, leg, p, a, fields)
	case events || x.Body.Stream && good:
		if kind == "" && good {
			fields = append(fields, pipeline.Field{Name: "Content-Type", Value: "text/event-stream"})
			events = true
		}
		return f.stream(x, leg, p, a, fields, events)
	}
	return f.whole(x, leg, p, a, fields)
}

func isEventStream(contentType string) bool {
	const kind = "text/event-stream"
	return len(contentType) >= len(kind) && strings.EqualFold(contentType[:len(kind)], kind)
}

// whole reads the answer to its end and then relays it. An answer that is in the connection's buffer already, as most are, is
// not copied.
func (f *forward) whole(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, fields []pipeline.Field) error {
	if f.MaxAnswer > 0 && a.ContentLength > f.MaxAnswer {
		return f.tooLarge(leg)
	}
	body, err := f.readWhole(p, a, f.MaxAnswer)
	if err != nil {
		if errors.Is(err, errTooLong) {
			return f.tooLarge(leg)
		}
		return f.unread(leg, err)
	}
	leg.Outcome = pipeline.Answered
	leg.Usage = usageIn(body)
	if len(body) > 0 {
		x.TellFirstByte(leg)
	}
	if f.Reshape != nil && a.Status >= 200 && a.Status <= 299 {
		shaped, failed := f.Reshape(x, body)
		if failed != nil {
			return failed
		}
		body = shaped
	}
	return f.deliver(x, leg, p, a.Status, fields, body, a.Trailers())
}

// patient is the size from which on writing an answer may have to wait for the client.
const patient = 64 << 10

func (f *forward) deliver(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, status int, fields []pipeline.Field, body []byte, trailers []pipeline.Field) error {
	if len(body) > patient && !p.call.Deadline.IsZero() {
		_ = x.Client.SetWriteDeadline(p.call.Deadline)
		defer func() { _ = x.Client.SetWriteDeadline(time.Time{}) }()
	}
	err := x.WriteHead(status, int64(len(body)), fields)
	if err == nil {
		_, err = x.Client.Write(body)
	}
	if err != nil {
		leg.Outcome = pipeline.ClientLeft
		return pipeline.ErrClientGone
	}
	if len(trailers) > 0 {
		x.Client.Trailers(trailers)
	}
	return nil
}

var errTooLong = errors.New("longer than what may be kept")

// readWhole reads a body of at most limit bytes (0: any); of a longer one it returns what was read, with errTooLong. The
// result is valid until the passage is released or the answer closed.
func (f *forward) readWhole(p *passage, a *answer, limit int64) ([]byte, error) {
	piece, err := a.next()
	if err == nil && int64(len(piece)) == a.ContentLength {
		return piece, nil
	}
	p.whole = p.whole[:0]
	if a.ContentLength > 0 && a.ContentLength <= 16<<20 && int64(cap(p.whole)) < a.ContentLength {
		p.whole = make([]byte, 0, a.ContentLength)
	}
	for ; err == nil; piece, err = a.next() {
		p.whole = append(p.whole, piece...)
		if limit > 0 && int64(len(p.whole)) > limit {
			return p.whole, errTooLong
		}
	}
	if errors.Is(err, io.EOF) {
		return p.whole, nil
	}
	return nil, err
}

// held is how much of an answer is kept back for another attempt.
const held = 1 << 20

// hold reads an answer and returns it as an error, so that the retry stage decides. One that is too long to keep goes to the
// client: that ends the attempts.
func (f *forward) hold(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, fields []pipeline.Field) error {
	body, err := f.readWhole(p, a, held)
	switch {
	case errors.Is(err, errTooLong):
		return f.resume(x, leg, p, a, fields, body)
	case err != nil:
		return f.unread(leg, err)
	}
	leg.Outcome = pipeline.Answered
	return &pipeline.Error{Status: a.Status, Held: &pipeline.Answer{
		Status: a.Status, Fields: append([]pipeline.Field(nil), fields...),
		Body: append([]byte(nil), body...), Trailers: append([]pipeline.Field(nil), a.Trailers()...),
	}}
}

// resume relays an answer of which a part was read already.
func (f *forward) resume(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, fields []pipeline.Field, begun []byte) error {
	if err := x.WriteHead(a.Status, a.ContentLength, fields); err != nil {
		leg.Outcome = pipeline.ClientLeft
		return pipeline.ErrClientGone
	}
	piece := begun
	for {
		if _, err := x.Client.Write(piece); err != nil {
			leg.Outcome = pipeline.ClientLeft
			return pipeline.ErrClientGone
		}
		var err error
		if piece, err = a.next(); errors.Is(err, io.EOF) {
			leg.Outcome = pipeline.Answered
			return nil
		} else if err != nil {
			return f.broke(x, leg, p, err, false)
		}
	}
}

// broke ends a response that broke behind its head: at an event boundary with an error event, and in any case visibly cut.
func (f *forward) broke(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, err error, events bool) error {
	if errors.Is(err, errInterrupted) {
		leg.Outcome = pipeline.ClientLeft
		return pipeline.ErrClientGone
	}
	leg.Outcome = pipeline.Broken
	e := &pipeline.Error{
		Status: http.StatusBadGateway, Code: "stream_error", Message: "The worker's answer broke off", Terminal: true,
		Cause: blame(leg, err),
	}
	if errors.Is(err, errTimeout) {
		leg.Outcome = pipeline.TimedOut
		e.Message = "The worker's answer took longer than the gateway allows"
	}
	if events && p.tail.atBoundary() {
		if _, failed := x.Client.Write(f.Dialect.ErrorEvent(e, x.ID)); failed == nil {
			_ = x.Client.Flush()
		}
	}
	return e
}
