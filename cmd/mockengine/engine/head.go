package engine

import (
	"bytes"
	"errors"
	"math"
)

// maxHead bounds a request's head, maxBody its body (bytes).
const (
	maxHead = 64 << 10
	maxBody = 256 << 20
)

var (
	errMalformed = errors.New("malformed request")
	errHeadSize  = errors.New("request head too large")
	errBodySize  = errors.New("request body too large")
)

// head is a request's head, read in place: its slices are good until the next request of the connection.
type head struct {
	raw         []byte // request line and header lines, without the blank line
	method      []byte
	path        []byte // the target without its query
	auth        []byte // the value of Authorization, if there is one
	length      int    // Content-Length; 0 if there is none
	hasLength   bool
	chunked     bool
	close       bool // the peer wants the connection closed after the answer
	expect      bool // the peer waits for 100 Continue
	oldProtocol bool // HTTP/1.0: no chunked answers
}

// parse reads raw, which ends before the blank line, into h. It is strict where leniency would hide a gateway's mistake: two
// different lengths, a length beside chunked, folded lines and stray line ends are errors.
func (h *head) parse(raw []byte) error {
	*h = head{raw: raw}
	line, rest := cutLine(raw)
	if err := h.requestLine(line); err != nil {
		return err
	}
	for len(rest) > 0 {
		line, rest = cutLine(rest)
		if err := h.headerLine(line); err != nil {
			return err
		}
	}
	if h.chunked && h.hasLength {
		return errMalformed
	}
	return nil
}

func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\r\n"))
	return line, rest
}

func (h *head) requestLine(line []byte) error {
	method, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok || !isToken(method) {
		return errMalformed
	}
	target, version, ok := bytes.Cut(rest, []byte(" "))
	if !ok || len(target) == 0 || hasControl(target) {
		return errMalformed
	}
	switch string(version) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.oldProtocol, h.close = true, true
	default:
		return errMalformed
	}
	h.method = method
	h.path, _, _ = bytes.Cut(target, []byte("?"))
	return nil
}

func (h *head) headerLine(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !isToken(name) || bytes.ContainsAny(value, "\r\n\x00") {
		return errMalformed
	}
	value = bytes.Trim(value, " \t")
	switch len(name) { // the length tells nearly all other headers apart without a comparison
	case len("expect"):
		if is(name, "expect") {
			h.expect = is(value, "100-continue")
		}
	case len("connection"):
		if is(name, "connection") {
			h.close = h.close || is(value, "close")
		}
	case len("authorization"):
		if is(name, "authorization") {
			h.auth = value
		}
	case len("content-length"):
		if is(name, "content-length") {
			return h.contentLength(value)
		}
	case len("transfer-encoding"):
		if is(name, "transfer-encoding") {
			if h.chunked || !is(value, "chunked") {
				return errMalformed
			}
			h.chunked = true
		}
	}
	return nil
}

// contentType is looked for when a route asks for it.
func (h *head) contentType() string {
	_, rest := cutLine(h.raw)
	for len(rest) > 0 {
		var line []byte
		line, rest = cutLine(rest)
		if name, value, _ := bytes.Cut(line, []byte(":")); is(name, "content-type") {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

func (h *head) contentLength(value []byte) error {
	n, err := parseSize(value, 10)
	if err != nil {
		return err
	}
	if h.hasLength && n != h.length {
		return errMalformed
	}
	h.length, h.hasLength = n, true
	return nil
}

// parseSize reads a whole number of base 10 or 16 and nothing else: no sign, no space, no prefix.
func parseSize(b []byte, base int) (int, error) {
	if len(b) == 0 {
		return 0, errMalformed
	}
	n := 0
	for _, c := range b {
		d := digit(c)
		if d >= base {
			return 0, errMalformed
		}
		if n > (math.MaxInt-d)/base {
			return 0, errBodySize
		}
		n = n*base + d
	}
	if n > maxBody {
		return 0, errBodySize
	}
	return n, nil
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return math.MaxInt
}

// is compares without regard to ASCII case; lower must be lower case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// isToken is the grammar of methods and header names: visible ASCII without delimiters.
func isToken(b []byte) bool {
	for _, c := range b {
		if !tokenChars[c] {
			return false
		}
	}
	return len(b) > 0
}

var tokenChars = func() (t [256]bool) {
	for c := '!'; c <= '~'; c++ {
		t[c] = !bytes.ContainsRune([]byte(`"(),/:;<=>?@[\]{}`), c)
	}
	return t
}()

func hasControl(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c == 0x7f {
			return true
		}
	}
	return false
}
