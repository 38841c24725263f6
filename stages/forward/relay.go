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
	if s := leg.Worker.Series(); s != nil && f.Metrics != nil {
		s.Head(time.Since(leg.Sent))
	}
	x.TellHead(leg, a.Status)
	filterHead(a, leg.Worker)
	kind := fieldValue(a.Fields, "Content-Type")
	events := isEventStream(kind)
	good := a.Status >= 200 && a.Status <= 299
	switch {
	case x.Judge != nil && x.Judge.Hold(x, leg, a.Status):
		return f.hold(x, leg, p, a)
	case events || x.Body.Stream && good && f.Reshape == nil:
		if kind == "" && good && a.Status != http.StatusNoContent {
			a.Fields = append(a.Fields, pipeline.Field{Name: "Content-Type", Value: "text/event-stream"})
			events = true
		}
		leg.Streamed = events
		return f.stream(x, leg, p, a)
	}
	return f.whole(x, leg, p, a)
}

func isEventStream(contentType string) bool {
	const kind = "text/event-stream"
	return len(contentType) >= len(kind) && strings.EqualFold(contentType[:len(kind)], kind)
}

// whole reads the answer to its end and then relays it. An answer that is in the connection's buffer already, as most are, is
// not copied. With its last byte the worker is done: it is not counted busy while the client takes its time.
func (f *forward) whole(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer) error {
	if f.MaxAnswer > 0 && a.ContentLength > f.MaxAnswer && p.call.Method != http.MethodHead {
		return tooLarge(leg)
	}
	body, err := p.readWhole(x, leg, a, f.MaxAnswer)
	switch {
	case errors.Is(err, errTooLong):
		return tooLarge(leg)
	case err != nil:
		return unread(leg, p, err)
	}
	a.endUpload()
	leg.End()
	leg.Outcome = pipeline.Answered
	leg.Usage, p.last = usageIn(body), body
	if f.Reshape != nil && a.Status >= 200 && a.Status <= 299 {
		shaped, failed := f.Reshape(x, body)
		if failed != nil {
			return failed
		}
		body = shaped
	}
	return p.deliver(x, leg, a, body)
}

// patient is the size from which on writing an answer may have to wait for the client.
const patient = 64 << 10

func (p *passage) deliver(x *pipeline.Exchange, leg *pipeline.Leg, a *answer, body []byte) error {
	if len(body) > patient {
		a.close() // the body is a copy
		defer p.limitWriting(x)()
	}
	trailers := endToEnd(a.Trailers(), "")
	length := int64(len(body))
	switch {
	case p.call.Method == http.MethodHead:
		length = a.ContentLength
	case len(trailers) > 0:
		length = -1 // a body whose length is declared has no trailers
	}
	err := x.WriteHead(a.Status, length, a.Fields)
	if err == nil {
		_, err = x.Client.Write(body)
	}
	if err != nil {
		return clientLeft(leg)
	}
	if len(trailers) > 0 {
		x.Client.Trailers(trailers)
	}
	return nil
}

// farewell is how much longer than its attempt a response may wait for the client: if the worker runs out of time, there is
// something left to say.
const farewell = time.Second

// limitWriting makes the end of the attempt the end of all waiting for the client, until the returned function is called.
func (p *passage) limitWriting(x *pipeline.Exchange) (unlimit func()) {
	if p.call.Deadline.IsZero() {
		return func() {}
	}
	_ = x.Client.SetWriteDeadline(p.call.Deadline.Add(farewell))
	return func() { _ = x.Client.SetWriteDeadline(time.Time{}) }
}

// clientLeft is the end of a request whose answer could not be written.
func clientLeft(leg *pipeline.Leg) error {
	leg.Outcome = pipeline.ClientLeft
	return pipeline.ErrClientGone
}

var errTooLong = errors.New("longer than what may be kept")

// readWhole reads a body of at most limit bytes (0: any); of a longer one it returns what was read, with errTooLong. The
// result is valid until the passage is released or, up to a size of patient, the answer closed.
func (p *passage) readWhole(x *pipeline.Exchange, leg *pipeline.Leg, a *answer, limit int64) ([]byte, error) {
	defer x.Waited(x.Wait())
	piece, err := a.next()
	if err == nil {
		x.TellFirstByte(leg)
		if int64(len(piece)) == a.ContentLength && len(piece) <= patient {
			return piece, nil
		}
	}
	p.reserve(a.ContentLength, limit)
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

// reserve makes room for a body of a declared length, as far as the declaration may be trusted.
func (p *passage) reserve(length, limit int64) {
	p.whole = p.whole[:0]
	if limit > 0 {
		length = min(length, limit)
	}
	if length <= 16<<20 && int64(cap(p.whole)) < length {
		p.whole = make([]byte, 0, length)
	}
}
