package server

import (
	"bytes"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// rehearser is the client of a request that is only rehearsed: it has the headers of the one that asks, the body that it sent, and the
// method and path of the route that is explained. What is answered goes nowhere.
type rehearser struct {
	pipeline.Client
	method, path string
	body         *bytes.Reader
	length       int64
}

func (r *rehearser) Method() string       { return r.method }
func (r *rehearser) Path() string         { return r.path }
func (r *rehearser) Query() string        { return "" }
func (r *rehearser) ContentLength() int64 { return r.length }

func (r *rehearser) Read(p []byte) (int, error)   { return r.body.Read(p) }
func (r *rehearser) SetReadTimeout(time.Duration) {}
func (r *rehearser) StopReading()                 {}

func (r *rehearser) AddHeader(string, string)                     {}
func (r *rehearser) SetHeader(string, string)                     {}
func (r *rehearser) Interim(int, []pipeline.Field) error          { return nil }
func (r *rehearser) WriteHead(int, int64, []pipeline.Field) error { return nil }
func (r *rehearser) Write(p []byte) (int, error)                  { return len(p), nil }
func (r *rehearser) Flush() error                                 { return nil }
func (r *rehearser) SetWriteDeadline(time.Time) error             { return nil }
func (r *rehearser) Trailers([]pipeline.Field)                    {}
func (r *rehearser) Abort()                                       {}
