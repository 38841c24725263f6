package pipeline_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// deaf is a client that sends an empty request and throws the response away.
type deaf struct{}

var _ pipeline.Client = deaf{}

func (deaf) Method() string                               { return "POST" }
func (deaf) Path() string                                 { return "/generate" }
func (deaf) Query() string                                { return "" }
func (deaf) Protocol() string                             { return "HTTP/1.1" }
func (deaf) Peer() string                                 { return "127.0.0.1:1" }
func (deaf) TLS() *tls.ConnectionState                    { return nil }
func (deaf) Header(string) string                         { return "" }
func (deaf) Headers(func(name, value string) bool)        {}
func (deaf) ContentLength() int64                         { return 0 }
func (deaf) Read([]byte) (int, error)                     { return 0, io.EOF }
func (deaf) SetReadTimeout(time.Duration)                 {}
func (deaf) StopReading()                                 {}
func (deaf) AddHeader(string, string)                     {}
func (deaf) SetHeader(string, string)                     {}
func (deaf) Interim(int, []pipeline.Field) error          { return nil }
func (deaf) WriteHead(int, int64, []pipeline.Field) error { return nil }
func (deaf) Write(p []byte) (int, error)                  { return len(p), nil }
func (deaf) Flush() error                                 { return nil }
func (deaf) SetWriteDeadline(time.Time) error             { return nil }
func (deaf) Trailers([]pipeline.Field)                    {}
func (deaf) Abort()                                       {}
func (deaf) Gone() bool                                   { return false }
func (deaf) Watch(pipeline.GoneWatcher)                   {}
func (deaf) Unwatch(pipeline.GoneWatcher)                 {}

// memory is a client that remembers what it was sent, call by call: a test drives a chain without HTTP.
type memory struct {
	deaf
	got   []string         // "head 200 length 5", "field Name: value", "body hello", "trailer Name: value", "abort"
	added []pipeline.Field // before the head

	deadAtHead, deadAtBody bool // the connection breaks there
}

var errBrokenPipe = errors.New("broken pipe")

func (m *memory) AddHeader(name, value string) {
	m.added = append(m.added, pipeline.Field{Name: name, Value: value})
}

func (m *memory) WriteHead(status int, contentLength int64, fields []pipeline.Field) error {
	m.note("head %d length %d", status, contentLength)
	if m.deadAtHead {
		return errBrokenPipe
	}
	for _, f := range slices.Concat(m.added, fields) {
		m.note("field %s: %s", f.Name, f.Value)
	}
	return nil
}

func (m *memory) Write(p []byte) (int, error) {
	if m.deadAtBody {
		return 0, errBrokenPipe
	}
	m.note("body %s", p)
	return len(p), nil
}

func (m *memory) Trailers(fields []pipeline.Field) {
	for _, f := range fields {
		m.note("trailer %s: %s", f.Name, f.Value)
	}
}

func (m *memory) Abort() { m.note("abort") }

func (m *memory) note(format string, args ...any) {
	m.got = append(m.got, fmt.Sprintf(format, args...))
}

// body is all of the response body.
func (m *memory) body() string {
	var all strings.Builder
	for _, g := range m.got {
		if text, ok := strings.CutPrefix(g, "body "); ok {
			all.WriteString(text)
		}
	}
	return all.String()
}
