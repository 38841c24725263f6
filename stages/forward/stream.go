package forward

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
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
func (f *forward) stream(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer) error {
	if err := a.uploaded(); err != nil {
		return unread(leg, p, err)
	}
	// Into a plain event stream the gateway may put a comment or an error event; an encoded one is not for it to write.
	plain := leg.Streamed && fieldValue(a.Fields, "Content-Encoding") == ""
	length := a.ContentLength
	if plain {
		length = -1
	}
	defer p.limitWriting(x)()
	gaps := f.gaps(x, leg)
	err := x.WriteHead(a.Status, length, a.Fields)
	if err == nil && !a.buffered() {
		err = x.Client.Flush()
	}
	for err == nil {
		var piece []byte
		since := x.Wait()
		piece, err = f.listen(x, p, a, plain)
		x.Waited(since)
		if err != nil {
			p.last = p.tail.bytes()
			return f.ended(x, leg, p, a, err, plain)
		}
		came := time.Now()
		if leg.FirstEvent.IsZero() {
			leg.FirstEvent = came
			x.TellFirstByte(leg)
		}
		if gaps != nil {
			gaps.add(piece, came)
		}
		p.tail.add(piece)
		err = p.pass(x, leg, piece, came, !a.buffered())
	}
	return clientLeft(leg)
}

// noticeable is from when on a write is taken for one that waits for the client: what it takes by itself is far less.
const noticeable = time.Millisecond

// pass gives the client a piece of a stream that has just come.
func (p *passage) pass(x *pipeline.Exchange, leg *pipeline.Leg, piece []byte, came time.Time, last bool) error {
	_, err := x.Client.Write(piece)
	if err == nil && last {
		err = x.Client.Flush()
	}
	p.tail.heard = time.Now() // not when it came: a client that took its time with it is no silence of the worker
	if blocked := p.tail.heard.Sub(came); blocked >= noticeable {
		leg.Blocked += blocked
	}
	return err
}

// ended tells the end of a stream from a break.
func (f *forward) ended(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, err error, plain bool) error {
	if !errors.Is(err, io.EOF) {
		return f.broke(x, leg, p, err, plain)
	}
	leg.Usage = usageIn(p.tail.bytes())
	return relayed(x, leg, a)
}

// broke ends a response that broke behind its head: what has come goes out, then, if that ends between two events of a plain
// stream, an error event; the error makes the response end visibly cut.
func (f *forward) broke(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, err error, plain bool) error {
	if ended := byClient(leg, p, err); ended != nil {
		return ended
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
	if plain && p.tail.atBoundary() {
		_, _ = x.Client.Write(f.Dialect.ErrorEvent(e, x.ID)) // to a client that has left too, it makes no difference
	}
	_ = x.Client.Flush()
	return e
}

// listen waits for the next piece of a stream. While the worker is silent it pings the client, between events alone. The
// deadline of the read is moved only when it has passed: a busy stream never touches it.
func (f *forward) listen(x *pipeline.Exchange, p *passage, a *answer, plain bool) ([]byte, error) {
	if !plain || f.Keepalive <= 0 {
		return a.next()
	}
	if p.tail.heard.IsZero() {
		p.tail.heard = time.Now()
	}
	if p.tail.tick.IsZero() {
		f.arm(p, a)
	}
	for {
		piece, err := a.next()
		if err != errTick { //nolint:errorlint // the contract of next; other time-outs are final
			return piece, err
		}
		now := time.Now()
		if passed(p.call.Deadline) {
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
