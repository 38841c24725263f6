//go:build unix

package forward

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// echoServer reads requests of a fixed size without parsing and answers 1 KiB, so that a benchmark measures the client.
func echoServer(tb testing.TB, request int) *rawServer {
	raw := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: Mon, 01 Jan 2029 00:00:00 GMT\r\nServer: uvicorn\r\n" +
		"x-request-id: chatcmpl-0123456789\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024)
	answer := []byte(raw)
	return listen(tb, func(p *peer) {
		buf := make([]byte, 64<<10)
		for got := 0; ; {
			n, err := p.Conn.Read(buf)
			if err != nil {
				return
			}
			for got += n; got >= request; got -= request {
				if _, err := p.Write(answer); err != nil {
					return
				}
			}
		}
	})
}

var benchFields = []pipeline.Field{
	{Name: "Content-Type", Value: "application/json"},
	{Name: "Authorization", Value: "Bearer sk-0123456789"},
	{Name: "X-Request-Id", Value: "chatcmpl-0123456789"},
}

// BenchmarkSend is one keep-alive connection with a request and an answer of 1 KiB each: raw is the system calls alone, the
// difference to lean is what this client adds.
func BenchmarkSend(b *testing.B) {
	body := []byte(strings.Repeat("y", 1024))
	size := func(c *call) int {
		if err := c.render(); err != nil {
			b.Fatal(err)
		}
		return len(c.out)
	}
	b.Run("raw", func(b *testing.B) { benchmarkRaw(b, body) })
	b.Run("lean", func(b *testing.B) {
		probe := (&rawServer{}).post(string(body))
		probe.Endpoint.Host, probe.Fields = "127.0.0.1:12345", benchFields
		s := echoServer(b, size(probe))
		s.Host = "127.0.0.1:12345"
		tr := testTransport(b)
		c := new(call)
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			c.reset()
			c.Pool, c.Endpoint, c.Method, c.Path, c.Fields, c.Body = DefaultPool, &s.Endpoint, "POST", "/generate", benchFields, body
			c.Deadline = time.Now().Add(time.Minute)
			a, err := tr.send(c)
			if err != nil {
				b.Fatal(err)
			}
			for err == nil {
				_, err = a.next()
			}
			a.close()
		}
	})
	b.Run("http.Transport", func(b *testing.B) {
		s := listen(b, answers("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n"+strings.Repeat("x", 1024)))
		tr := &http.Transport{DisableCompression: true}
		defer tr.CloseIdleConnections()
		b.ReportAllocs()
		defer reportCPU(b)()
		for b.Loop() {
			req, _ := http.NewRequest("POST", "http://"+s.Dial+"/generate", bytes.NewReader(body))
			for _, f := range benchFields {
				req.Header.Set(f.Name, f.Value)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}

func benchmarkRaw(b *testing.B, body []byte) {
	head := "POST /generate HTTP/1.1\r\nHost: 127.0.0.1:12345\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	request := append([]byte(head), body...)
	s := echoServer(b, len(request))
	tr := testTransport(b)
	c := s.get()
	on, f := tr.connect(c, true)
	require.Nil(b, f)
	defer on.close()
	buf := make([]byte, 4096)
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		if _, err := on.net.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := on.net.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHead parses a head as an engine sends it.
func BenchmarkHead(b *testing.B) {
	raw := []byte("HTTP/1.1 200 OK\r\ndate: Mon, 01 Jan 2029 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: 1024\r\n" +
		"content-type: application/json\r\nx-request-id: chatcmpl-0123456789\r\n\r\n")
	var h head
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		scanned := 0
		end := headEnd(raw, &scanned)
		if err := h.parse(string(raw[:end])); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChunks takes the coding off a stream of one event a chunk.
func BenchmarkChunks(b *testing.B) {
	raw := []byte(strings.Repeat("c8\r\n"+strings.Repeat("x", 200)+"\r\n", 16))
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		var d chunks
		for at := 0; at < len(raw); {
			skip, data, err := d.step(raw[at:])
			if err != nil {
				b.Fatal(err)
			}
			at += skip + data
		}
	}
}
