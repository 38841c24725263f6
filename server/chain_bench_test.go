package server

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

// BenchmarkChain takes chat requests through the whole chain of the route to a mock engine, driven through the client interface:
// what smg itself costs, without an HTTP server in front.
func BenchmarkChain(b *testing.B) {
	for _, kib := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			e := engine.Start(b, engine.Config{Keep: -1})
			g := start(b, func(c *Config) { c.LogLevel = "error" }, e)
			c := &memoryClient{body: chatOf(kib << 10)}
			chain := g.gateway.runtime.Chain("POST " + chatPath)
			b.SetBytes(int64(kib << 10))
			b.ReportAllocs()
			for b.Loop() {
				c.rewind()
				if err := chain.Serve(c); err != nil || c.status != 200 {
					b.Fatal(c.status, err)
				}
			}
		})
	}
}

// The target of the whole design, kept by a test: ten allocations for a request of 1 KiB.
func TestARequestAllocatesAtMostTenTimes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	g := start(t, func(c *Config) { c.LogLevel = "error" }, engine.Start(t, engine.Config{Keep: -1}))
	c := &memoryClient{body: chatOf(1 << 10)}
	chain := g.gateway.runtime.Chain("POST " + chatPath)
	allocs := testing.AllocsPerRun(500, func() {
		c.rewind()
		if err := chain.Serve(c); err != nil {
			t.Error(err)
		}
	})
	require.LessOrEqual(t, allocs, 10.0)
}

func chatOf(size int) string {
	const head, tail = `{"model":"m1","messages":[{"role":"user","content":"`, `"}]}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// memoryClient is a client without HTTP: one request, again and again.
type memoryClient struct {
	body   string
	unread string
	status int
	got    int
}

var _ pipeline.Client = (*memoryClient)(nil)

func (c *memoryClient) rewind()                    { c.unread, c.status, c.got = c.body, 0, 0 }
func (*memoryClient) Method() string               { return "POST" }
func (*memoryClient) Path() string                 { return chatPath }
func (*memoryClient) Query() string                { return "" }
func (*memoryClient) Protocol() string             { return "HTTP/1.1" }
func (*memoryClient) Peer() string                 { return "127.0.0.1:1" }
func (*memoryClient) TLS() *tls.ConnectionState    { return nil }
func (c *memoryClient) ContentLength() int64       { return int64(len(c.body)) }
func (*memoryClient) SetReadTimeout(time.Duration) {}
func (*memoryClient) StopReading()                 {}

func (*memoryClient) Header(name string) string {
	if name == "Content-Type" {
		return "application/json"
	}
	return ""
}

func (*memoryClient) Headers(yield func(name, value string) bool) {
	yield("Content-Type", "application/json")
}

func (c *memoryClient) Read(p []byte) (int, error) {
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; c.unread == "" {
		return n, io.EOF
	}
	return n, nil
}

func (*memoryClient) AddHeader(string, string)            {}
func (*memoryClient) SetHeader(string, string)            {}
func (*memoryClient) Interim(int, []pipeline.Field) error { return nil }
func (*memoryClient) Flush() error                        { return nil }
func (*memoryClient) SetWriteDeadline(time.Time) error    { return nil }
func (*memoryClient) Trailers([]pipeline.Field)           {}
func (*memoryClient) Abort()                              {}
func (*memoryClient) Gone() bool                          { return false }
func (*memoryClient) Watch(pipeline.GoneWatcher)          {}
func (*memoryClient) Unwatch(pipeline.GoneWatcher)        {}
func (c *memoryClient) Write(p []byte) (int, error)       { c.got += len(p); return len(p), nil }
func (c *memoryClient) WriteHead(status int, _ int64, _ []pipeline.Field) error {
	c.status = status
	return nil
}
