package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// sender carries calls to workers: the lean client, or an adapter over any http.RoundTripper.
type sender interface {
	// send sends a call and returns its answer once its head has come. The error is a *failure.
	send(c *call) (*answer, error)
}

// senderOver is the sender that rt stands for.
func senderOver(rt http.RoundTripper) sender {
	if t, ok := rt.(*Transport); ok {
		return t
	}
	return &adapter{rt: rt}
}

// adapter makes a sender of a round tripper.
type adapter struct {
	rt       http.RoundTripper
	onResend func() // may be nil

	onConnection func(reused bool, took time.Duration) // may be nil
}

func (a *adapter) send(c *call) (*answer, error) {
	if passed(c.Deadline) {
		return nil, c.failed(errTimeout, false, errLate)
	}
	f := a.attempt(c, false)
	if f != nil && f.mayResend(c) {
		if a.onResend != nil {
			a.onResend()
		}
		f = a.attempt(c, true)
	}
	if f != nil {
		return nil, f
	}
	return &c.answer, nil
}

// attempt sends the call once. With again the round tripper is told that it may replay the request, so that connections which
// the worker has closed do not make it fail once more: a standard transport keeps several, and they go stale together.
func (a *adapter) attempt(c *call, again bool) *failure {
	ctx, cancel := context.WithCancel(context.Background())
	if !c.Deadline.IsZero() {
		cancel()
		ctx, cancel = context.WithDeadline(context.Background(), c.Deadline)
	}
	standIn := &conn{cancel: cancel}
	if !c.attach(nil, standIn) {
		cancel()
		return c.failed(errInterrupted, false, context.Canceled)
	}
	f := &foreign{cancel: cancel, standIn: standIn}
	req, err := f.request(a.trace(ctx, c, f), c)
	if err != nil {
		c.detach(standIn)
		cancel()
		return &failure{Kind: errRequest, Cause: err}
	}
	if again {
		req.Header["X-Idempotency-Key"] = []string{} // net/http: replayable, and nothing on the wire
	}
	if t, ok := a.rt.(*http.Transport); !ok || !t.DisableCompression {
		req.Header.Set("Accept-Encoding", "identity") // else a transport asks for gzip and unpacks the answer
	}
	if upload := c.Upload; upload != nil { // a standard transport that gives up waits for whoever reads the body
		context.AfterFunc(ctx, func() { f.gate.halt(upload) })
	}
	resp, err := a.rt.RoundTrip(req)
	f.waits.Lock()
	f.returned = true
	f.waits.Unlock()
	if err != nil {
		return f.abandon(ctx, c, err)
	}
	c.answer.adopt(c, f, resp)
	return nil
}

func (a *adapter) closeIdle() {
	if c, ok := a.rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// request makes the request of a call.
func (f *foreign) request(ctx context.Context, c *call) (*http.Request, error) {
	e := c.Endpoint
	target := e.Prefix + c.Path
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	u, err := url.Parse(e.Scheme + "://" + e.Host + target)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{
		Method: c.Method, URL: u, Host: e.Host, Header: make(http.Header, len(c.Fields)+2),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	for _, field := range c.Fields {
		if !framesMessage(field.Name) {
			req.Header.Add(field.Name, field.Value)
		}
	}
	if _, given := req.Header["User-Agent"]; !given {
		req.Header["User-Agent"] = nil // net/http: do not add one
	}
	f.giveBody(req, c)
	return req, nil
}

func (f *foreign) giveBody(req *http.Request, c *call) {
	switch {
	case c.Upload != nil:
		f.gate.over = make(chan struct{})
		req.Body, req.ContentLength = &gated{gate: &f.gate, from: c.Upload}, -1
		if c.UploadLength > 0 {
			req.ContentLength = c.UploadLength
		}
	case len(c.Body) > 0:
		body := c.Body
		req.GetBody = func() (io.ReadCloser, error) {
			return &gated{gate: &f.gate, from: bytes.NewReader(body)}, nil
		}
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(body))
	}
}

// trace watches for the connection, for informational heads, and for the first byte of an answer. A transport may tell of a head when it has given
// up waiting for it already; by then the call is over.
func (a *adapter) trace(ctx context.Context, c *call, f *foreign) context.Context {
	interim, began := c.Interim, time.Now()
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			f.reused.Store(info.Reused)
			if a.onConnection != nil {
				a.onConnection(info.Reused, time.Since(began))
			}
		},
		GotFirstResponseByte: func() { f.heard.Store(true) },
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			f.waits.Lock()
			defer f.waits.Unlock()
			if interim != nil && status != http.StatusContinue && !f.returned {
				interim(status, fieldsOf(nil, http.Header(header)))
			}
			return nil
		},
	})
}

// abandon ends an attempt that got no head.
func (f *foreign) abandon(ctx context.Context, c *call, err error) *failure {
	kind := errSend
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		kind = errDial
	}
	if source := f.gate.failed(); source != nil {
		kind, err = errUpload, source
	}
	failed := c.failed(kind, f.heard.Load(), err)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && (failed.Kind == errSend || failed.Kind == errDial) {
		failed.Kind = errTimeout
	}
	f.cancel()
	f.gate.shut(c.Upload)
	c.detach(f.standIn)
	return failed
}

func fieldsOf(to []pipeline.Field, header http.Header) []pipeline.Field {
	for name, values := range header {
		for _, value := range values {
			to = append(to, pipeline.Field{Name: name, Value: value})
		}
	}
	return to
}
