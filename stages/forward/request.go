package forward

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	oneWrite     = 16 << 10 // head and body up to this many bytes are copied together and go out in one write
	direct       = 64 << 10 // a body up to this is written before the answer is read: two sockets' buffers take it in any case
	resendLimit  = 1 << 20  // a body of this many bytes is not sent twice
	keepRendered = 32 << 10 // a call keeps a buffer of this many bytes at most
)

var (
	errBadMethod = errors.New("bad method")
	errBadTarget = errors.New("bad path")
	errBadHost   = errors.New("bad host")
)

// render writes the request head into c.out, and a small body behind it.
func (c *call) render() error {
	e := c.Endpoint
	switch {
	case !isToken(c.Method):
		return errBadMethod
	case !isTarget(c.Path) || !isTarget(e.Prefix):
		return errBadTarget
	case e.Host == "" || !isTarget(e.Host):
		return errBadHost
	}
	b := append(c.out[:0], c.Method...)
	b = append(b, ' ')
	if e.Prefix == "" && !strings.HasPrefix(c.Path, "/") {
		b = append(b, '/')
	}
	b = append(append(b, e.Prefix...), c.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(append(b, e.Host...), '\r', '\n')
	b, err := c.renderFields(b)
	if err != nil {
		return err
	}
	b = append(c.renderFraming(b), '\r', '\n')
	c.out = b
	c.vector = [2][]byte{b, c.Body}
	if len(c.Body) > 0 && len(b)+len(c.Body) <= oneWrite {
		c.out = append(b, c.Body...)
		c.vector = [2][]byte{c.out, nil}
	}
	return nil
}

func (c *call) renderFields(b []byte) ([]byte, error) {
	for i := range c.Fields {
		f := &c.Fields[i]
		if framesMessage(f.Name) {
			continue
		}
		if !isToken(f.Name) || !isText(f.Value) {
			return b, fmt.Errorf("bad header field %q", f.Name)
		}
		b = append(append(b, f.Name...), ':', ' ')
		b = append(append(b, f.Value...), '\r', '\n')
	}
	return b, nil
}

func (c *call) renderFraming(b []byte) []byte {
	length := int64(len(c.Body))
	if c.Upload != nil {
		length = c.UploadLength
	}
	switch {
	case c.Upload != nil && length <= 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || expectsBody(c.Method):
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, length, 10), '\r', '\n')
	}
	if c.hangUp {
		b = append(b, "Connection: close\r\n"...)
	}
	return b
}

// expectsBody tells whether a request of this method says so when it has no body (RFC 9110, 8.6).
func expectsBody(method string) bool { return method == "POST" || method == "PUT" || method == "PATCH" }

// framesMessage tells whether a field is the client's own to write: those that say how long a message is and to whom it
// goes, and Expect, whose answer it would not wait for.
func framesMessage(name string) bool {
	switch len(name) {
	case 4:
		return strings.EqualFold(name, "Host")
	case 6:
		return strings.EqualFold(name, "Expect")
	case 7:
		return strings.EqualFold(name, "Trailer")
	case 10:
		return strings.EqualFold(name, "Connection")
	case 14:
		return strings.EqualFold(name, "Content-Length")
	case 17:
		return strings.EqualFold(name, "Transfer-Encoding")
	}
	return false
}

// write sends what render has made.
func (c *call) write(to net.Conn) error {
	if len(c.vector[1]) == 0 {
		_, err := to.Write(c.vector[0])
		return err
	}
	vector := c.vector // a resend needs it once more, and WriteTo eats what it has written
	c.bufs = c.vector[:]
	_, err := c.bufs.WriteTo(to)
	c.vector, c.bufs = vector, nil
	return err
}
