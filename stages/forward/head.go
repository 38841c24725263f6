package forward

import (
	"bytes"
	"errors"
	"strings"

	"github.com/smg-go/smg/pipeline"
)

// maxHead is how long a response head may be, in bytes; maxInterim is how many informational heads may precede it.
const (
	maxHead    = 256 << 10
	maxInterim = 1000
)

var (
	errNotHTTP      = errors.New("malformed answer: no HTTP/1 status line")
	errHeadTooLong  = errors.New("malformed answer: the head is longer than 256 KiB")
	errField        = errors.New("malformed answer: bad header field")
	errFolded       = errors.New("malformed answer: folded header field")
	errLength       = errors.New("malformed answer: bad Content-Length")
	errLengths      = errors.New("malformed answer: differing Content-Length fields")
	errCoding       = errors.New("malformed answer: a Transfer-Encoding other than chunked")
	errBothLengths  = errors.New("malformed answer: both Content-Length and Transfer-Encoding")
	errCodingInOld  = errors.New("malformed answer: Transfer-Encoding in an HTTP/1.0 answer")
	errSwitching    = errors.New("malformed answer: 101 Switching Protocols to a request that did not ask")
	errManyInterims = errors.New("malformed answer: too many informational heads")
)

// head is a parsed response head. Its strings are parts of the one string it was parsed from.
type head struct {
	// Status is 100 to 999.
	Status int
	// Fields are all header fields in the order and spelling in which they came, those that concern the connection included.
	Fields []pipeline.Field
	// ContentLength is the declared length of the body in bytes, -1 if none was declared. An answer to HEAD and a 304 may
	// declare a length and have no body.
	ContentLength int64
	// Connection is the value of the Connection field, several joined by commas; "" if there is none.
	Connection string

	minor   byte // 0 of HTTP/1.0, 1 of HTTP/1.1
	chunked bool
}

// headEnd is the length of the head that b starts with, its empty line included; -1 if the end is not in b. scanned is where
// an earlier look at a shorter b has stopped, 0 for the first one, and is moved on.
func headEnd(b []byte, scanned *int) int {
	for i := *scanned; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			*scanned = len(b)
			return -1
		}
		i += n + 1
		rest := b[i:]
		switch {
		case len(rest) >= 1 && rest[0] == '\n':
			return i + 1
		case len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n':
			return i + 2
		case len(rest) == 0, len(rest) == 1 && rest[0] == '\r':
			*scanned = i - 1 // look at this line feed once more
			return -1
		}
	}
}

// startsLikeHTTP tells whether b may be the beginning of an answer; so a peer that speaks something else is not waited for.
func startsLikeHTTP(b []byte) bool {
	const start = "HTTP/1."
	n := min(len(b), len(start))
	return string(b[:n]) == start[:n]
}

// parse reads the head s, which ends with its empty line. Lines end with CR LF or, as RFC 9112 2.2 allows and small test
// servers need, with LF alone; nothing else is forgiven, because two readings of one head are how requests get mixed up.
func (h *head) parse(s string) error {
	line, rest := cutLine(s)
	if !h.parseStatus(line) {
		return errNotHTTP
	}
	h.Fields, h.ContentLength, h.Connection, h.chunked = h.Fields[:0], -1, "", false
	for {
		if line, rest = cutLine(rest); line == "" {
			return h.checkFraming()
		}
		field, err := parseField(line)
		if err != nil {
			return err
		}
		if err := h.note(field); err != nil {
			return err
		}
		h.Fields = append(h.Fields, field)
	}
}

// cutLine splits s behind its first line end.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, rest
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason, and the space before it, may be missing.
func (h *head) parseStatus(line string) bool {
	const start = "HTTP/1.1 200"
	if len(line) < len(start) || line[:7] != start[:7] || line[8] != ' ' || !isText(line) {
		return false
	}
	minor, a, b, c := line[7]-'0', line[9]-'0', line[10]-'0', line[11]-'0'
	if minor > 9 || a < 1 || a > 9 || b > 9 || c > 9 || len(line) > len(start) && line[len(start)] != ' ' {
		return false
	}
	h.minor, h.Status = minor, int(a)*100+int(b)*10+int(c)
	return true
}

func parseField(line string) (pipeline.Field, error) {
	if line[0] == ' ' || line[0] == '\t' {
		return pipeline.Field{}, errFolded
	}
	colon := strings.IndexByte(line, ':')
	if colon < 0 || !isToken(line[:colon]) || !isText(line[colon+1:]) {
		return pipeline.Field{}, errField
	}
	return pipeline.Field{Name: line[:colon], Value: trimSpace(line[colon+1:])}, nil
}

// note takes what the client itself needs out of a field.
func (h *head) note(f pipeline.Field) error {
	switch len(f.Name) {
	case len("Connection"):
		if strings.EqualFold(f.Name, "Connection") {
			if h.Connection != "" {
				h.Connection += ","
			}
			h.Connection += f.Value
		}
	case len("Content-Length"):
		if strings.EqualFold(f.Name, "Content-Length") {
			return h.noteLength(f.Value)
		}
	case len("Transfer-Encoding"):
		if strings.EqualFold(f.Name, "Transfer-Encoding") {
			if h.chunked || !strings.EqualFold(f.Value, "chunked") {
				return errCoding
			}
			h.chunked = true
		}
	}
	return nil
}

func (h *head) noteLength(value string) error {
	if value == "" || len(value) > 18 { // 18 digits fit an int64
		return errLength
	}
	var n int64
	for i := 0; i < len(value); i++ {
		digit := value[i] - '0'
		if digit > 9 {
			return errLength
		}
		n = n*10 + int64(digit)
	}
	if h.ContentLength >= 0 && h.ContentLength != n {
		return errLengths
	}
	h.ContentLength = n
	return nil
}

func (h *head) checkFraming() error {
	switch {
	case h.chunked && h.ContentLength >= 0:
		return errBothLengths
	case h.chunked && h.minor == 0:
		return errCodingInOld
	}
	return nil
}

// bodiless tells whether the answer to a request of this method ends with its head, whatever its fields say.
func (h *head) bodiless(method string) bool {
	return method == "HEAD" || h.Status == 204 || h.Status == 304
}

// persistent tells whether the peer leaves the connection open.
func (h *head) persistent() bool {
	if h.Connection == "" {
		return h.minor > 0
	}
	if h.minor == 0 {
		return hasToken(h.Connection, "keep-alive") && !hasToken(h.Connection, "close")
	}
	return !hasToken(h.Connection, "close")
}

// hasToken tells whether a comma-separated list has the token, in any case.
func hasToken(list, token string) bool {
	for list != "" {
		var item string
		item, list, _ = strings.Cut(list, ",")
		if strings.EqualFold(trimSpace(item), token) {
			return true
		}
	}
	return false
}
