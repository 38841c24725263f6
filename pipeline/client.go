package pipeline

import (
	"crypto/tls"
	"io"
	"net/textproto"
	"time"
)

// Field is one header field: a name and one of its values.
type Field struct{ Name, Value string }

// Client is the other side of an exchange: who sent the request and reads the answer. It is the only door to it, so that a
// chain runs behind any server, or without one. One goroutine at a time uses it, but for Gone, Watch and Unwatch.
type Client interface {
	// Method is the request's method, as sent.
	Method() string
	// Path is the path of the request's URL, as sent, without the query.
	Path() string
	// Query is what stands behind the question mark, "" if there is none.
	Query() string
	// Protocol is the protocol with its version, such as HTTP/1.1.
	Protocol() string
	// Peer is the address of the other end of the connection, host:port.
	Peer() string
	// TLS is the state of the connection's encryption; nil without one.
	TLS() *tls.ConnectionState

	// Header is the first value of a request header, "" if it was not sent. name is in canonical form (Content-Type).
	Header(name string) string
	// Headers yields every header field of the request, in no promised order, until yield returns false.
	Headers(yield func(name, value string) bool)
	// ContentLength is the declared length of the request body in bytes; -1 if none was declared, 0 if there is no body.
	ContentLength() int64
	// Read reads the request body. A client that waits for "100 Continue" gets it at the first Read.
	io.Reader
	// SetReadTimeout is how long one Read may wait for the client's next bytes before it gives up with an error that is
	// os.ErrDeadlineExceeded; 0 is for ever.
	SetReadTimeout(d time.Duration)
	// StopReading makes a Read that waits, and every later one, fail. It may come from any goroutine.
	StopReading()

	// AddHeader adds a field to the response head that WriteHead will write.
	AddHeader(name, value string)
	// SetHeader replaces the values that AddHeader and SetHeader have given a name.
	SetHeader(name, value string)
	// Interim writes an informational response, status 100 to 199.
	Interim(status int, fields []Field) error
	// WriteHead writes the response head: status, the given fields, and those added before. An added field wins over a given
	// one of the same name. contentLength is the length of the body in bytes, -1 if it is not known. fields is not kept.
	WriteHead(status int, contentLength int64, fields []Field) error
	// Write writes a part of the body; it may be held back until Flush.
	io.Writer
	// Flush sends what was held back.
	Flush() error
	// SetWriteDeadline is the time at which a Write that waits for a slow client gives up.
	SetWriteDeadline(t time.Time) error
	// Trailers sets the fields to send after the body; before the end of the chain, after WriteHead.
	Trailers(fields []Field)
	// Abort makes the response end visibly broken: the connection is cut without an end of the body.
	Abort()

	// Gone tells whether the client has left.
	Gone() bool
	// Watch asks for a call of w.ClientGone once the client has left; at once if it has. Unwatch takes it back: when it has
	// returned, w is not called any more. A client notices that it has left only after the request body was read.
	Watch(w GoneWatcher)
	Unwatch(w GoneWatcher)
}

// CanonicalNames are names of headers as [Client] takes them.
func CanonicalNames(names []string) []string {
	canonical := make([]string, 0, len(names))
	for _, name := range names {
		canonical = append(canonical, textproto.CanonicalMIMEHeaderKey(name))
	}
	return canonical
}

// GoneWatcher is told that a client has left, on any goroutine. ClientGone must not block.
type GoneWatcher interface{ ClientGone() }
