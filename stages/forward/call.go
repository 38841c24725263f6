package forward

import (
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Pool is how connections to a worker are made and kept. Workers with equal pools and the same address share connections.
type Pool struct {
	DialTimeout time.Duration // how long connecting may take; 0 is no limit of its own
	MaxIdle     int           // connections of one address that are kept while nobody uses them; 0 keeps none
	IdleTimeout time.Duration // how long such a connection is kept; 0 is for ever
	HTTP2       bool          // speak HTTP/2: by prior knowledge to http workers, by ALPN to https ones
}

// call is one request to a worker, and then its answer. The caller may pool calls: fill in the fields, send, read the answer,
// close it, reset. The zero value is ready.
type call struct {
	Pool
	Endpoint *workers.Endpoint // Scheme, Dial, Host and Prefix are read
	Method   string
	Path     string // goes behind Endpoint.Prefix; may carry a query
	// Fields go out in this order, before the client's own: Host, and Content-Length or Transfer-Encoding. Fields that frame
	// the message (framesMessage) are left out if they are here, so there is never more than one framing.
	Fields []pipeline.Field
	// Body is the whole body. It is read until the answer is closed.
	Body []byte
	// Upload, if not nil, is the body instead. A goroutine of the client reads it while the head is waited for. The goroutine
	// ends before send fails or close returns, so an Upload whose Read can wait should be an io.Closer: Close is called,
	// from another goroutine, to make that Read return.
	Upload       io.Reader
	UploadLength int64 // declared length of Upload in bytes; 0 is unknown, and makes the body chunked
	// NoResend forbids the second send of a request whose first one got no byte of an answer. Upload and a Body of 1 MiB or
	// more imply it.
	NoResend bool
	Deadline time.Time // of connecting, sending and reading the whole answer; zero is none
	// Interim, if not nil, is told of the informational heads other than 100. fields is not to be kept.
	Interim func(status int, fields []pipeline.Field)

	holds  atomic.Pointer[conn] // what Interrupt closes: a connection, or one being made; then &interrupted for good
	answer answer
	out    []byte      // the rendered head, and the body if it is small
	vector [2][]byte   // head and body, if it is not
	bufs   net.Buffers // what is left of vector to write
	writer *writer     // writes a body that might not fit the socket's buffer
	hangUp bool        // ask for the end of the connection after this request
	loose  bool        // do not wait for the end of the writer: its source may block, and nobody reuses the call
}

// interrupted is what call.holds of a call that was interrupted points to.
var interrupted = new(conn)

// Interrupt makes the call fail: its connection is closed at once, or the attempt to connect is given up. It may come at any
// time on any goroutine, before send too, and stays in force until reset. One that comes after close touches no connection,
// because close has taken the connection out of the call in the same atomic step that tells whether Interrupt was first.
func (c *call) Interrupt() {
	if held := c.holds.Swap(interrupted); held != nil {
		held.interrupt()
	}
}

// attach hands a connection to the call in place of old (nil at first); false if the call was interrupted.
func (c *call) attach(old, held *conn) bool { return c.holds.CompareAndSwap(old, held) }

// detach takes the connection back; false if the call was interrupted, and the connection is closed.
func (c *call) detach(held *conn) bool { return c.holds.CompareAndSwap(held, nil) }

func (c *call) isInterrupted() bool { return c.holds.Load() == interrupted }

// reset makes the call ready for another request, keeping its buffers. An answer that is still open, as after a panic, is
// closed. Nobody may be left who could still call Interrupt for the old request.
func (c *call) reset() {
	c.answer.close()
	fields, trailers, out := c.answer.Fields, c.answer.trailers, c.out
	clear(fields)
	clear(trailers)
	if cap(out) > keepRendered {
		out = nil
	}
	c.Pool, c.Endpoint, c.Method, c.Path, c.Fields, c.Body = Pool{}, nil, "", "", nil, nil
	c.Upload, c.UploadLength, c.NoResend, c.Deadline, c.Interim = nil, 0, false, time.Time{}, nil
	c.holds.Store(nil)
	c.answer = answer{}
	c.answer.Fields, c.answer.trailers, c.out = fields[:0], trailers[:0], out[:0]
	c.vector, c.bufs, c.writer, c.hangUp, c.loose = [2][]byte{}, nil, nil, false, false
}

// resendable tells whether a request that got no byte of an answer may be sent once more.
func (c *call) resendable() bool { return !c.NoResend && c.Upload == nil && len(c.Body) < resendLimit }

// failed is the failure of the call for a cause: an interrupted or late call fails in many ways, and all mean the same.
func (c *call) failed(kind error, received bool, cause error) *failure {
	switch {
	case c.isInterrupted():
		kind = errInterrupted
	case kind != errUpload && isTimeout(cause): // a client that stalls is not a worker that does
		kind = errTimeout
	}
	return &failure{Kind: kind, Received: received, Cause: cause}
}
