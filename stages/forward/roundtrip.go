package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"sync"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// RoundTrip is [http.RoundTripper]. A request by http goes through the lean client, unless it asks for an upgrade; the error
// is then the cause of the request's context if that has ended. A body of up to 64 KiB of declared length is read before it
// is sent, and such a request is sent a second time if the first one got no byte of an answer.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case req.URL == nil || req.URL.Host == "":
		closeBody(req)
		return nil, errors.New("forward: no host in the request's URL")
	case req.URL.Scheme != "http", t.options.Proxy != nil, t.options.Pool.HTTP2,
		req.Method == http.MethodConnect, req.Header.Get("Upgrade") != "":
		return t.other(t.options.Pool).rt.RoundTrip(req)
	}
	c, err := t.callOf(req)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	stop := context.AfterFunc(req.Context(), c.Interrupt)
	a, err := t.send(c)
	if err != nil {
		stop()
		closeBody(req)
		if cause := context.Cause(req.Context()); cause != nil {
			return nil, cause
		}
		return nil, err
	}
	return responseOf(req, a, stop), nil
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// callOf makes a call of a request. It is not pooled: the context may interrupt it after it has ended.
func (t *Transport) callOf(req *http.Request) (*call, error) {
	u := req.URL
	host := req.Host
	if host == "" {
		host = u.Host
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	c := &call{
		Pool: t.options.Pool, Method: req.Method, Path: u.RequestURI(), hangUp: req.Close, loose: true,
		Endpoint: &workers.Endpoint{Scheme: u.Scheme, Host: host, Dial: net.JoinHostPort(u.Hostname(), port)},
	}
	if c.Method == "" {
		c.Method = http.MethodGet
	}
	c.Fields = fieldsOf(make([]pipeline.Field, 0, len(req.Header)), req.Header)
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.Got1xxResponse != nil {
		c.Interim = func(status int, fields []pipeline.Field) {
			_ = trace.Got1xxResponse(status, textproto.MIMEHeader(headerOf(fields)))
		}
	}
	return c, c.takeBody(req)
}

// takeBody reads a small body; a larger one, or one of unknown length, is uploaded.
func (c *call) takeBody(req *http.Request) error {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	if n := req.ContentLength; n > 0 && n <= direct {
		c.Body = make([]byte, n)
		if _, err := io.ReadFull(req.Body, c.Body); err != nil {
			return &failure{Kind: errUpload, Cause: err}
		}
		return req.Body.Close()
	}
	c.Upload, c.UploadLength = &closing{ReadCloser: req.Body}, max(req.ContentLength, 0)
	return nil
}

// closing is a request body that is closed when it has been read, as a round tripper must, and only once.
type closing struct {
	io.ReadCloser
	once sync.Once
}

func (b *closing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.Close()
	}
	return n, err
}

func (b *closing) Close() (err error) {
	b.once.Do(func() { err = b.ReadCloser.Close() })
	return err
}

func headerOf(fields []pipeline.Field) http.Header {
	h := make(http.Header, len(fields))
	for _, f := range fields {
		h.Add(f.Name, f.Value)
	}
	return h
}

// responseOf makes a response of an answer.
func responseOf(req *http.Request, a *answer, stop func() bool) *http.Response {
	resp := &http.Response{
		Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status), StatusCode: a.Status,
		Proto: "HTTP/1." + strconv.Itoa(int(a.minor)), ProtoMajor: 1, ProtoMinor: int(a.minor),
		Header: headerOf(a.Fields), ContentLength: a.ContentLength, Close: !a.persistent(), Request: req,
	}
	if a.framing == byChunks {
		resp.TransferEncoding = []string{"chunked"}
		resp.Header.Del("Transfer-Encoding")
	}
	if a.framing == noBody || a.framing == byLength && a.left == 0 {
		a.close()
		stop()
		resp.Body = http.NoBody
		return resp
	}
	resp.Body = &responseBody{answer: a, response: resp, stop: stop}
	return resp
}

// responseBody is the body of a response. Close may come while Read waits, and ends it.
type responseBody struct {
	answer   *answer
	response *http.Response
	stop     func() bool

	mu   sync.Mutex
	rest []byte // of the current piece
	done error  // what every Read returns from now on
}

func (b *responseBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.rest) == 0 {
		if b.done != nil {
			return 0, b.done
		}
		piece, err := b.answer.next()
		if err != nil {
			return 0, b.end(err)
		}
		b.rest = piece
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// end gives the connection back as soon as the body is over, also to those who forget to close it.
func (b *responseBody) end(err error) error {
	if cause := context.Cause(b.response.Request.Context()); cause != nil && !errors.Is(err, io.EOF) {
		err = cause
	}
	if trailers := b.answer.Trailers(); len(trailers) > 0 {
		b.response.Trailer = headerOf(trailers)
	}
	b.done = err
	b.answer.close()
	b.stop()
	return err
}

// Close gives the connection back if the body was read to its end, and closes it otherwise.
func (b *responseBody) Close() error {
	if !b.mu.TryLock() {
		b.answer.call.Interrupt()
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	b.rest = nil
	if b.done == nil {
		b.done = http.ErrBodyReadAfterClose
		b.answer.close()
		b.stop()
	}
	return nil
}
