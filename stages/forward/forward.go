package forward

import (
	"net/http"
	"sync"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
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
	fields []pipeline.Field
	tail   tail
	whole  []byte
	upload upload
}

var passages = sync.Pool{New: func() any { return new(passage) }}

// ClientGone closes the connection to the worker.
func (p *passage) ClientGone() { p.call.Interrupt() }

func (f *forward) Handle(x *pipeline.Exchange, _ pipeline.Next) error {
	leg := x.Legs.Last()
	p := passages.Get().(*passage)
	defer p.release()
	f.prepare(x, leg, p)
	x.Try(leg.Worker)

	x.Client.Watch(p)
	a, err := f.sender.send(&p.call)
	if err == nil {
		err = f.receive(x, leg, p, a)
	} else {
		err = f.unsent(leg, err)
	}
	x.Client.Unwatch(p) // before the connection may serve another request
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
	p.fields = requestFields(p.fields[:0], x, w)
	c.Fields = p.fields
	limits := &w.Settings().HTTPPool
	c.Deadline = leg.Sent.Add(limits.RequestTimeout)
	c.Pool = Pool{DialTimeout: limits.ConnectTimeout, MaxIdle: limits.MaxIdle, IdleTimeout: limits.IdleTimeout, HTTP2: limits.HTTP2}
	c.Body, c.Upload = x.Body.Bytes, nil
	if x.Body.Streamed {
		p.upload = upload{peeked: x.Body.Peeked, client: x.Client, left: f.MaxUpload, limited: f.MaxUpload > 0}
		c.Body, c.Upload = nil, &p.upload
	}
	if s := w.Series(); s != nil && f.Metrics != nil {
		s.Requests(f.Metrics.ModelLabel(x.Model, x.Served)).Inc()
	}
}

// count counts a leg that failed; the attempt as a whole is counted by the retry stage.
func (f *forward) count(x *pipeline.Exchange, leg *pipeline.Leg) {
	failed := leg.Status >= 500 || leg.Outcome == pipeline.Broken
	if f.Metrics == nil || !failed || leg.Outcome == pipeline.ClientLeft {
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
	clear(p.fields)
	p.fields = p.fields[:0]
	p.tail.reset()
	p.upload = upload{}
	if cap(p.whole) > largest {
		p.whole = nil
	}
	passages.Put(p)
}

// targetOf is the field that names the worker to the client.
func targetOf(w *workers.Worker) pipeline.Field {
	return pipeline.Field{Name: "X-Smg-Routed-Worker-Id", Value: w.URL()}
}
