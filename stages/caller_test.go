package stages

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// caller is a client without HTTP: one request, and what came of it. It keeps what the contract of [pipeline.Client] asks for.
type caller struct {
	method, path, query string
	header              http.Header
	body                io.Reader
	length              int64 // declared, -1: none
	onWrite             func(c *caller, p []byte)
	broken              bool // nothing can be written to it

	added    http.Header
	status   int
	head     http.Header
	declared int64 // length of the answer, as declared
	got      bytes.Buffer
	trailers []pipeline.Field
	aborted  bool
	timeouts []time.Duration // of reads, as they were set
	reads    int

	pipeline.Departure
}

var _ pipeline.Client = (*caller)(nil)

const chatPath = "/v1/chat/completions"

// small is a chat request; stream and unnamed are variants of it.
const (
	small   = `{"model":"m1","messages":[{"role":"user","content":"hi"}]}`
	stream  = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`
	unnamed = `{"text":"hi"}`
)

// post is a client with a JSON body of a declared length. headers are names and values in turn.
func post(path, body string, headers ...string) *caller {
	c := &caller{method: http.MethodPost, path: path, body: strings.NewReader(body), length: int64(len(body)), header: http.Header{}, added: http.Header{}}
	c.header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		c.header.Set(headers[i], headers[i+1])
	}
	return c
}

// chat is a small chat request.
func chat(headers ...string) *caller { return post(chatPath, small, headers...) }

// sized is a chat of exactly so many bytes.
func sized(bytes int) *caller {
	const head, tail = `{"model":"m1","messages":[{"role":"user","content":"`, `"}]}`
	return post(chatPath, head+strings.Repeat("x", bytes-len(head)-len(tail))+tail)
}

// chunked is a client that does not declare how long its body is.
func chunked(path, body string) *caller {
	c := post(path, body)
	c.length = -1
	return c
}

// leave is what a client does that has had enough.
func (c *caller) leave() { c.Happen() }

func (c *caller) Method() string                 { return c.method }
func (c *caller) Path() string                   { return c.path }
func (c *caller) Query() string                  { return c.query }
func (*caller) Protocol() string                 { return "HTTP/1.1" }
func (*caller) Peer() string                     { return "127.0.0.1:1" }
func (*caller) TLS() *tls.ConnectionState        { return nil }
func (c *caller) ContentLength() int64           { return c.length }
func (c *caller) Header(name string) string      { return c.header.Get(name) }
func (c *caller) SetReadTimeout(d time.Duration) { c.timeouts = append(c.timeouts, d) }
func (*caller) StopReading()                     {}

func (c *caller) Headers(yield func(name, value string) bool) {
	for name, values := range c.header {
		for _, v := range values {
			if !yield(name, v) {
				return
			}
		}
	}
}

func (c *caller) Read(p []byte) (int, error) {
	c.reads++
	return c.body.Read(p)
}

func (c *caller) AddHeader(name, value string) { c.added.Add(name, value) }
func (c *caller) SetHeader(name, value string) { c.added.Set(name, value) }

func (*caller) Interim(int, []pipeline.Field) error { return nil }

var errClosed = errors.New("the connection is closed")

func (c *caller) WriteHead(status int, contentLength int64, fields []pipeline.Field) error {
	if c.status != 0 {
		panic("two response heads")
	}
	if c.broken {
		return errClosed
	}
	c.status, c.declared, c.head = status, contentLength, c.added.Clone()
	for _, f := range fields {
		if _, wins := c.added[http.CanonicalHeaderKey(f.Name)]; !wins {
			c.head.Add(f.Name, f.Value)
		}
	}
	return nil
}

func (c *caller) Write(p []byte) (int, error) {
	if c.status == 0 {
		panic("a body before its head")
	}
	if c.broken {
		return 0, errClosed
	}
	c.got.Write(p)
	if c.onWrite != nil {
		c.onWrite(c, p)
	}
	return len(p), nil
}

func (*caller) Flush() error                       { return nil }
func (*caller) SetWriteDeadline(time.Time) error   { return nil }
func (c *caller) Trailers(fields []pipeline.Field) { c.trailers = append(c.trailers, fields...) }
func (c *caller) Abort()                           { c.aborted = true }

// watched is how many still wait for the client to leave.
func (c *caller) watched() int { return c.Watching() }

// code is the error code that the client was told.
func (c *caller) code() string {
	if c.head == nil {
		return ""
	}
	return c.head.Get("X-Smg-Error-Code")
}

// through takes the client through a chain of some stages.
func (c *caller) through(t testing.TB, stages ...pipeline.Stage) (*pipeline.Exchange, error) {
	t.Helper()
	x := &pipeline.Exchange{Client: c}
	return x, assembled(t, stages...).Run(x)
}

func assembled(t testing.TB, stages ...pipeline.Stage) *pipeline.Chain {
	t.Helper()
	chain, err := pipeline.Assemble("POST "+chatPath, stages...)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

// given is a stage that gives facts in the place of the stages that usually do.
func given(facts ...pipeline.Fact) pipeline.Stage {
	return pipeline.StageFunc("given", pipeline.Contract{Gives: facts}, func(x *pipeline.Exchange, next pipeline.Next) error { return next(x) })
}

// last is the last stage of a chain: it looks at the exchange and answers with a status and an empty body.
func last(status int, look func(x *pipeline.Exchange)) pipeline.Stage {
	return pipeline.StageFunc("last", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		if look != nil {
			look(x)
		}
		return x.WriteHead(status, 0, nil)
	})
}
