package forward

import (
	"bytes"
	"errors"

	"github.com/smg-go/smg/pipeline"
)

// maxChunkLine is how long the line with a chunk's size and extensions may be, maxTrailers how long all trailers, in bytes.
const (
	maxChunkLine = 1 << 10
	maxTrailers  = 16 << 10
)

var (
	errChunkSize   = errors.New("malformed answer: bad chunk size")
	errChunkEnd    = errors.New("malformed answer: a chunk does not end where it should")
	errChunkLine   = errors.New("malformed answer: the line of a chunk's size is longer than 1 KiB")
	errTrailerSize = errors.New("malformed answer: the trailers are longer than 16 KiB")
)

type chunkState uint8

const (
	atSize chunkState = iota
	inData
	afterData
	atTrailers
	chunksDone
)

// chunks takes the chunked coding off a body, in place. Unlike the head's, its lines end with CR LF and nothing else:
// a lone LF here is what tells one reader that a chunk goes on and another that it is over. Extensions are dropped.
type chunks struct {
	left     int64 // bytes of the current chunk that step has not yet told of
	state    chunkState
	scanned  int    // how far the search for the end of the trailers has come
	trailers string // the trailer section, if there was one
}

// step looks at b, the bytes that follow what earlier steps have told of: drop skip bytes, then data bytes belong to the
// body. No data, no error and another state than chunksDone mean that b[skip:] needs more bytes behind it.
func (d *chunks) step(b []byte) (skip, data int, err error) {
	for err == nil {
		used := 0
		switch rest := b[skip:]; d.state {
		case atSize:
			used, err = d.size(rest)
		case inData:
			data = int(min(int64(len(rest)), d.left))
			if d.left -= int64(data); d.left == 0 {
				d.state = afterData
			}
			return skip, data, nil
		case afterData:
			used, err = d.dataEnd(rest)
		case atTrailers:
			used, err = d.trailerEnd(rest)
		case chunksDone:
			return skip, 0, nil
		}
		if used == 0 {
			return skip, 0, err
		}
		skip += used
	}
	return skip, 0, err
}

// size reads the line in front of a chunk; it uses 0 bytes if the line is not whole.
func (d *chunks) size(b []byte) (used int, err error) {
	var n int64
	digits := 0
	for digits < len(b) {
		v := hexValue(b[digits])
		if v < 0 {
			break
		}
		if digits++; digits > 15 { // 15 digits fit an int64
			return 0, errChunkSize
		}
		n = n<<4 | int64(v)
	}
	if digits == len(b) {
		return 0, nil
	}
	if digits == 0 {
		return 0, errChunkSize
	}
	end, err := lineEnd(b, digits)
	if end == 0 || err != nil {
		return 0, err
	}
	d.left, d.state = n, inData
	if n == 0 {
		d.state = atTrailers
	}
	return end, nil
}

// lineEnd is where the line that b starts with ends, 0 if its end is not in b; from stands behind the size's digits, where
// nothing but spaces and extensions may follow.
func lineEnd(b []byte, from int) (int, error) {
	if len(b) >= from+2 && b[from] == '\r' && b[from+1] == '\n' {
		return from + 2, nil
	}
	if c := b[from]; c != ';' && c != ' ' && c != '\t' && c != '\r' {
		return 0, errChunkSize
	}
	lf := bytes.IndexByte(b[from:], '\n')
	switch {
	case lf < 0 && len(b) > maxChunkLine, lf > maxChunkLine:
		return 0, errChunkLine
	case lf < 0:
		return 0, nil
	}
	extension := b[from : from+lf]
	if n := len(extension); n == 0 || extension[n-1] != '\r' || bytes.IndexByte(extension, '\r') < n-1 {
		return 0, errChunkSize
	}
	for _, c := range extension[:len(extension)-1] {
		if c == ';' {
			break
		}
		if c != ' ' && c != '\t' {
			return 0, errChunkSize
		}
	}
	return from + lf + 1, nil
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (d *chunks) dataEnd(b []byte) (used int, err error) {
	switch {
	case len(b) == 0, len(b) == 1 && b[0] == '\r':
		return 0, nil
	case len(b) == 1, b[0] != '\r', b[1] != '\n':
		return 0, errChunkEnd
	}
	d.state = atSize
	return 2, nil
}

func (d *chunks) trailerEnd(b []byte) (used int, err error) {
	switch {
	case len(b) >= 2 && b[0] == '\r' && b[1] == '\n':
		d.state = chunksDone
		return 2, nil
	case len(b) == 0, len(b) == 1 && b[0] == '\r':
		return 0, nil
	}
	end := headEnd(b, &d.scanned)
	if end > maxTrailers || end < 0 && len(b) > maxTrailers {
		return 0, errTrailerSize
	}
	if end < 0 {
		return 0, nil
	}
	if bytes.Count(b[:end], []byte("\n")) != bytes.Count(b[:end], []byte("\r\n")) {
		return 0, errField
	}
	d.trailers, d.state = string(b[:end]), chunksDone
	return end, nil
}

// parseTrailers appends the fields of a trailer section. Fields that frame or steer the message have no business there
// (RFC 9110, 6.5.1) and are dropped.
func parseTrailers(fields []pipeline.Field, s string) ([]pipeline.Field, error) {
	for {
		var line string
		if line, s = cutLine(s); line == "" {
			return fields, nil
		}
		field, err := parseField(line)
		if err != nil {
			return fields, err
		}
		if !framesMessage(field.Name) {
			fields = append(fields, field)
		}
	}
}
