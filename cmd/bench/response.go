package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxLine is the longest line of a response head that is accepted, in bytes.
const maxLine = 16 << 10

// response is what the load needs to know about an answer.
type response struct {
	status int
	bytes  int64 // length of the body
	closes bool  // the connection cannot be used again
}

// responseReader reads HTTP/1.1 answers off a connection. It keeps nothing of the head but what frames the body, so that the
// load takes little of the CPU that the peer could use.
type responseReader struct {
	src        io.Reader
	buf        []byte
	start, end int // what has been read and not yet consumed is buf[start:end]
}

func newResponseReader(src io.Reader) *responseReader {
	return &responseReader{src: src, buf: make([]byte, maxLine)}
}

// next reads one answer to its end, past interim ones (1xx). The parts of the body are handed to body as they arrive, which must
// not keep them; nil drops them.
func (r *responseReader) next(body func([]byte)) (response, error) {
	for {
		h, err := r.head()
		if err != nil {
			return response{}, err
		}
		if h.status >= 200 {
			return r.body(h, body)
		}
	}
}

// framing is a response head.
type framing struct {
	status  int
	length  int64 // -1: not given
	chunked bool
	closes  bool
}

func (r *responseReader) head() (framing, error) {
	line, err := r.line()
	if err != nil {
		return framing{}, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return framing{}, fmt.Errorf("not a status line: %.40q", line)
	}
	status, err := strconv.ParseUint(string(line[9:12]), 10, 16)
	if err != nil || status < 100 {
		return framing{}, fmt.Errorf("not a status: %.40q", line)
	}
	f := framing{status: int(status), length: -1, closes: line[7] == '0'}
	for {
		line, err := r.line()
		if err != nil {
			return framing{}, unexpected(err)
		}
		if len(line) == 0 {
			return f, nil
		}
		if err := f.header(line); err != nil {
			return framing{}, err
		}
	}
}

func (f *framing) header(line []byte) error {
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found {
		return fmt.Errorf("not a header: %.40q", line)
	}
	value = bytes.TrimSpace(value)
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil {
			return fmt.Errorf("not a length: %.40q", line)
		}
		f.length = int64(n)
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		f.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("Connection")):
		f.closes = f.closes || bytes.EqualFold(value, []byte("close"))
	}
	return nil
}

func (r *responseReader) body(f framing, body func([]byte)) (response, error) {
	res := response{status: f.status, closes: f.closes}
	var err error
	switch {
	case f.status == 204 || f.status == 304:
	case f.chunked:
		res.bytes, err = r.chunks(body)
	case f.length >= 0:
		res.bytes, err = r.copy(f.length, body)
	default: // delimited by the end of the connection
		res.closes = true
		if res.bytes, err = r.copy(-1, body); errors.Is(err, io.EOF) {
			err = nil
		}
		return res, err
	}
	return res, unexpected(err)
}

func (r *responseReader) chunks(body func([]byte)) (int64, error) {
	var total int64
	for {
		line, err := r.line()
		if err != nil {
			return total, err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 63)
		if err != nil {
			return total, fmt.Errorf("not a chunk size: %.40q", line)
		}
		if n == 0 {
			return total, r.trailer()
		}
		got, err := r.copy(int64(n), body)
		total += got
		if err != nil {
			return total, err
		}
		if line, err = r.line(); err != nil {
			return total, err
		}
		if len(line) != 0 {
			return total, fmt.Errorf("a chunk of %d bytes goes on with %.40q", n, line)
		}
	}
}

func (r *responseReader) trailer() error {
	for {
		line, err := r.line()
		if err != nil || len(line) == 0 {
			return err
		}
	}
}

// copy hands the next n bytes to body, or all up to the end if n is negative, and returns how many there were.
func (r *responseReader) copy(n int64, body func([]byte)) (int64, error) {
	var done int64
	for done != n {
		if r.start == r.end {
			if err := r.fill(); err != nil {
				return done, err
			}
		}
		part := r.buf[r.start:r.end]
		if n >= 0 && int64(len(part)) > n-done {
			part = part[:n-done]
		}
		if body != nil {
			body(part)
		}
		r.start += len(part)
		done += int64(len(part))
	}
	return done, nil
}

// line returns the next line without its end; it is valid until the next read.
func (r *responseReader) line() ([]byte, error) {
	seen := 0
	for {
		if i := bytes.IndexByte(r.buf[r.start+seen:r.end], '\n'); i >= 0 {
			line := r.buf[r.start : r.start+seen+i]
			r.start += seen + i + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen = r.end - r.start
		if seen == len(r.buf) {
			return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once. It makes room first; there must be some.
func (r *responseReader) fill() error {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	n, err := r.src.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	return err
}

// unexpected turns the end of the connection into an error that says that it came too soon.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
