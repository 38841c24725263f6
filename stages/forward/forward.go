package forward

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Settings say how requests are forwarded. The zero value forwards without limits of its own; how long an attempt may take is the
// worker's setting.
type Settings struct {
	MaxAnswer int64         // bytes of an answer that is not a stream, which is read whole before it goes to the client; 0: no limit
	MaxUpload int64         // bytes of a streamed request body; 0: no limit
	Keepalive time.Duration // silence of a worker in an event stream after which the client gets a comment; 0: never
	Path      string        // the worker's path for this route; "": the client's
	Dialect   Dialect       // what smg itself writes into event streams; zero: [OpenAIStream]
	Reshape   Reshape       // makes another answer of a worker's; nil: the answer is relayed as it is

	Metrics *telemetry.Metrics // nil: nothing is counted
}

// Reshape makes the client's answer of a worker's whole 2xx answer. An error goes to the client instead.
type Reshape func(x *pipeline.Exchange, body []byte) ([]byte, *pipeline.Error)

// To sends the request to the chosen worker and relays its answer: status, header fields and bytes as the worker wrote them. It
// is the last stage of a chain; when it returns, the answer's last byte has gone to the client, or nothing has been written.
//
// An answer that is not a stream is read whole first: if it breaks off, nothing has gone to the client and the request may be
// tried again. An event stream is relayed as it comes, flushed after each read. A client that leaves closes the connection to
// the worker at once. transport is a [*Transport], or any other one.
func To(transport http.RoundTripper, s Settings) pipeline.Stage {
	if s.Dialect.Ping == nil {
		s.Dialect = OpenAIStream
	}
	return &forward{Settings: s, sender: senderOver(transport)}
}

type forward struct {
	Settings
	sender sender
	latest atomic.Pointer[horizon]
}

// horizon is the deadline of the attempts of a short while. Attempts that share one need not set it anew on a connection that
// has it already, which costs as much as parsing a head.
type horizon struct {
	timeout  time.Duration
	deadline time.Time
}

// deadline is the end of an attempt that begins now: after the time-out, or up to a thousandth of it later.
func (f *forward) deadline(now time.Time, timeout time.Duration) time.Time {
	slack := timeout / 1000
	exact := now.Add(timeout)
	if h := f.latest.Load(); h != nil && h.timeout == timeout && !h.deadline.Before(exact) && h.deadline.Sub(exact) <= slack {
		return h.deadline
	}
	h := &horizon{timeout, exact.Add(slack)}
	f.latest.Store(h)
	return h.deadline
}

var (
	_ pipeline.Stage      = (*forward)(nil)
	_ pipeline.Contracted = (*forward)(nil)
)

func (*forward) Name() string { return "forward" }

func (*forward) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}}
}

// passage is what one forwarding needs; it is used again.
type passage struct {
	call   call
	client pipeline.Client
	fields fieldList
	tail   tail
	whole  []byte
	last   []byte // the end of the answer, as the record of the request gets it
	upload upload

	interim func(status int, fields []pipeline.Field) // passes informational heads on to the client; made once
}

var passages = sync.Pool{New: func() any {
	p := &passage{}
	p.interim, p.fields.take = p.passInterim, p.fields.choose
	return p
}}

// passInterim passes an informational head on to a client that knows of such a thing.
func (p *passage) passInterim(status int, fields []pipeline.Field) {
	if p.client.Protocol() != "HTTP/1.0" {
		_ = p.client.Interim(status, endToEnd(fields, ""))
	}
}

// ClientGone closes the connection to the worker, and ends an upload that waits for who has left.
func (p *passage) ClientGone() {
	p.call.Interrupt()
	if p.upload.client != nil {
		_ = p.upload.Close()
	}
}

func (f *forward) Handle(x *pipeline.Exchange, _ pipeline.Next) error {
	leg := x.Legs.Last()
	p := passages.Get().(*passage)
	defer p.release()
	f.prepare(x, leg, p)
	x.Try(leg.Worker)

	x.Client.Watch(p)
	defer x.Client.Unwatch(p) // in any case before release: from then on the passage may be another request's
	since := x.Wait()
	a, err := f.sender.send(&p.call)
	x.Waited(since)
	if err == nil {
		err = f.receive(x, leg, p, a)
	} else {
		err = unsent(leg, p, err)
	}
	x.TellReceived(leg, p.last) // before close: what is told may be in the connection's buffer
	if a != nil {
		a.close()
	}
	f.count(x, leg)
	return err
}

// prepare fills in the call.
func (f *forward) prepare(x *pipeline.Exchange, leg *pipeline.Leg, p *passage) {
	w := leg.Worker
	leg.Sent = time.Now()
	c := &p.call
	c.Endpoint, c.Method, c.Path = w.Endpoint(), x.Client.Method(), f.Path
	if c.Path == "" {
		c.Path = x.Client.Path()
	}
	p.fields.gather(x, w, x.TellSend(leg))
	c.Fields = p.fields.fields
	limits := &w.Settings().HTTPPool
	c.Deadline = f.deadline(leg.Sent, limits.RequestTimeout)
	c.Pool = Pool{DialTimeout: limits.ConnectTimeout, MaxIdle: limits.MaxIdle, IdleTimeout: limits.IdleTimeout, HTTP2: limits.HTTP2}
	c.Body, c.Upload, c.Interim = x.Body.Bytes, nil, p.interim
	p.client = x.Client
	switch {
	case x.Body.Streamed && f.peekedWhole(x):
		c.Body = x.Body.Peeked // so that it can be sent once more
	case x.Body.Streamed:
		p.upload = upload{peeked: x.Body.Peeked, client: x.Client, left: f.MaxUpload, limited: f.MaxUpload > 0}
		c.Body, c.Upload, c.Interim = nil, &p.upload, nil // the client is being read from: nobody writes to it meanwhile
	}
	if s := w.Series(); s != nil && f.Metrics != nil {
		s.Requests(f.Metrics.ModelLabel(x.Model, x.Served)).Inc()
	}
}

// peekedWhole tells whether all of a streamed body was read ahead, and may be sent.
func (f *forward) peekedWhole(x *pipeline.Exchange) bool {
	n := int64(len(x.Body.Peeked))
	return n == x.Client.ContentLength() && (f.MaxUpload == 0 || n <= f.MaxUpload)
}

// count counts a leg that failed; the attempt as a whole is counted by the retry stage.
func (f *forward) count(x *pipeline.Exchange, leg *pipeline.Leg) {
	failed := leg.Status >= 500
	switch leg.Outcome {
	case pipeline.Broken, pipeline.TimedOut:
		failed = true
	case pipeline.ClientLeft, pipeline.ClientFault:
		failed = false
	}
	if f.Metrics == nil || !failed {
		return
	}
	w := leg.Worker
	timeout := leg.Outcome == pipeline.TimedOut || leg.Status == http.StatusGatewayTimeout
	f.Metrics.Workers.Errors(w.Type().String(), w.Mode().String(), timeout).Inc()
}

// largest is how much memory a passage keeps for the next request.
const largest = 64 << 10

// release clears the passage for another request, without a panic's leftovers.
func (p *passage) release() {
	p.call.reset()
	p.client = nil
	p.fields.reset()
	p.tail.reset()
	p.upload, p.last = upload{}, nil
	if cap(p.whole) > largest {
		p.whole = nil
	}
	passages.Put(p)
}
