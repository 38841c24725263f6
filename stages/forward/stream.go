package forward

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// Dialect is what the gateway itself writes into an event stream.
type Dialect struct {
	Ping       []byte                                           // keeps the connection alive while the worker is silent
	ErrorEvent func(e *pipeline.Error, requestID string) []byte // the last event of a stream that broke
}

// OpenAIStream is the dialect of OpenAI-style and SGLang routes.
var OpenAIStream = Dialect{
	Ping: []byte(": ping\n\n"),
	ErrorEvent: func(e *pipeline.Error, requestID string) []byte {
		_, body := pipeline.OpenAIForm(e, requestID)
		return append(append([]byte("data: "), body...), "\n\n"...)
	},
}

// AnthropicStream is the dialect of /v1/messages.
var AnthropicStream = Dialect{
	Ping: []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n"),
	ErrorEvent: func(e *pipeline.Error, requestID string) []byte {
		_, body := AnthropicForm(e, requestID)
		return append(append([]byte("event: error\ndata: "), body...), "\n\n"...)
	},
}

// AnthropicForm is the form of errors that clients of /v1/messages understand; see [pipeline.Form].
func AnthropicForm(e *pipeline.Error, requestID string) (contentType string, body []byte) {
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	body, _ = json.Marshal(struct { // strings alone: cannot fail
		Type      string `json:"type"`
		Error     detail `json:"error"`
		RequestID string `json:"request_id"`
	}{"error", detail{anthropicKind(e.Status), e.Message}, requestID})
	return "application/json", body
}

func anthropicKind(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// stream relays an answer as it comes. The head goes out at once, with what of the body is there already; then each read from
// the worker is flushed. Towards a client that reads slowly it waits, and the worker's writes with it: nothing piles up here.
func (f *forward) stream(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, fields []pipeline.Field, events bool) error {
	length := a.ContentLength
	if events {
		leg.Streamed = true
		length = -1 // the gateway may add a comment or an error event
	}
	if !p.call.Deadline.IsZero() {
		_ = x.Client.SetWriteDeadline(p.call.Deadline)
		defer func() { _ = x.Client.SetWriteDeadline(time.Time{}) }()
	}
	err := x.WriteHead(a.Status, length, fields)
	if err == nil && !a.buffered() {
		err = x.Client.Flush()
	}
	for err == nil {
		var piece []byte
		piece, err = f.listen(x, p, a, events)
		if err != nil {
			return f.ended(x, leg, p, a, err, events)
		}
		if leg.FirstEvent.IsZero() {
			leg.FirstEvent = time.Now()
			x.TellFirstByte(leg)
		}
		p.tail.add(piece)
		if _, err = x.Client.Write(piece); err == nil && !a.buffered() {
			err = x.Client.Flush()
		}
	}
	leg.Outcome = pipeline.ClientLeft // writing to it failed
	return pipeline.ErrClientGone
}

// ended tells the end of a stream from a break.
func (f *forward) ended(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, err error, events bool) error {
	if !errors.Is(err, io.EOF) {
		return f.broke(x, leg, p, err, events)
	}
	leg.Outcome = pipeline.Answered
	leg.Usage = usageIn(p.tail.bytes())
	if trailers := a.Trailers(); len(trailers) > 0 {
		x.Client.Trailers(trailers)
	}
	return nil
}

// listen waits for the next piece of a stream. While the worker is silent it pings the client, between events alone. The
// deadline of the read is moved only when it has passed: a busy stream never touches it.
func (f *forward) listen(x *pipeline.Exchange, p *passage, a *answer, events bool) ([]byte, error) {
	if !events || f.Keepalive <= 0 {
		return a.next()
	}
	if p.tail.tick.IsZero() {
		p.tail.heard = time.Now()
		f.arm(p, a)
	}
	for {
		piece, err := a.next()
		if !errors.Is(err, errTimeout) {
			p.tail.heard = time.Now()
			return piece, err
		}
		now := time.Now()
		if d := p.call.Deadline; !d.IsZero() && !now.Before(d) {
			return nil, err
		}
		if now.Sub(p.tail.heard) >= f.Keepalive {
			if failed := f.ping(x, p); failed != nil {
				return nil, errInterrupted
			}
			p.tail.heard = now
		}
		f.arm(p, a)
	}
}

// arm sets the moment at which the worker will have been silent for too long, or the attempt's time is over.
func (f *forward) arm(p *passage, a *answer) {
	p.tail.tick = p.tail.heard.Add(f.Keepalive)
	if d := p.call.Deadline; !d.IsZero() && d.Before(p.tail.tick) {
		p.tail.tick = d
	}
	a.setReadDeadline(p.tail.tick)
}

func (f *forward) ping(x *pipeline.Exchange, p *passage) error {
	if !p.tail.atBoundary() {
		return nil
	}
	if _, err := x.Client.Write(f.Dialect.Ping); err != nil {
		return err
	}
	return x.Client.Flush()
}
