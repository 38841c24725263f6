package server

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// guard reads the bytes of a connection with HTTP/1 along with net/http, and stops them at what two readers could take for different
// requests: net/http forgives a line that ends without CR or goes on in the next one, and the wrong one of two lengths. Whoever is in
// front of the gateway may not, and then a client could hide a request from it. For what net/http refuses by itself the guard need
// not be strict; where it is in doubt it refuses.
//
// It costs a pass over the heads, and nothing for bodies with a declared length.
type guard struct {
	state guardState
	err   error  // why no more bytes are let through
	line  []byte // the beginning of a line whose end has not come

	left int64 // bytes of the body, or of the chunk, that are to come
	head
}

type guardState uint8

const (
	beforeHead guardState = iota // or in a body, if there is something left
	inHead
	inChunkSize
	inChunk
	afterChunk
	inTrailers
)

// head is what the framing of a request depends on.
type head struct {
	old              bool // not HTTP/1.1: nobody may send chunks
	lengths, codings int  // how many fields there are
	length           int64
}

// The reasons to refuse a request, as its client is told them.
var (
	errBareLF      = errors.New("a line ends without CR")
	errFolded      = errors.New("a header field goes on in a second line")
	errName        = errors.New("a header field has no name, or a blank behind it")
	errLengths     = errors.New("there is more than one Content-Length")
	errLength      = errors.New("the Content-Length is not a number")
	errCodings     = errors.New("there is more than one Transfer-Encoding")
	errBothLengths = errors.New("there are both Content-Length and Transfer-Encoding")
	errOldCoding   = errors.New("HTTP/1.0 has no Transfer-Encoding")
	errChunk       = errors.New("a chunk is malformed")
)

// pass takes what has been read, and returns how much of it goes on: all, or what is in front of the request, or the chunk, that is
// refused. The error is for the bytes behind.
func (g *guard) pass(p []byte) (n int, err error) {
	good := 0 // what belongs to requests and chunks that are all right
	for at := 0; at < len(p); {
		if g.left > 0 {
			at += g.skip(len(p) - at)
			good = at
			continue
		}
		end := bytes.IndexByte(p[at:], '\n')
		if end < 0 {
			g.line = append(g.line, p[at:]...)
			return len(p), nil
		}
		if g.err = g.take(g.complete(p[at : at+end])); g.err != nil {
			return good, g.err
		}
		at += end + 1
		if g.state != inHead && g.state != inTrailers {
			good = at
		}
	}
	return len(p), nil
}

// skip goes over bytes of a body or a chunk, at most n, and returns how many.
func (g *guard) skip(n int) int {
	step := min(g.left, int64(n))
	if g.left -= step; g.left == 0 && g.state == inChunk {
		g.state = afterChunk
	}
	return int(step)
}

// complete puts the beginning of a line that came before in front of its end.
func (g *guard) complete(end []byte) []byte {
	if len(g.line) == 0 {
		return end
	}
	line := append(g.line, end...)
	if g.line = line[:0]; cap(line) > 1<<10 {
		g.line = nil
	}
	return line
}

// take takes a line, which is without its LF.
func (g *guard) take(line []byte) error {
	line, whole := bytes.CutSuffix(line, []byte{'\r'})
	if !whole {
		return errBareLF
	}
	switch g.state {
	case beforeHead:
		if len(line) > 0 { // else it is left over from the last body, which old clients end so
			g.head = head{old: !bytes.HasSuffix(line, []byte("HTTP/1.1"))}
			g.state = inHead
		}
	case inHead:
		return g.takeField(line)
	case inChunkSize:
		return g.takeSize(line)
	case afterChunk:
		if len(line) > 0 {
			return errChunk
		}
		g.state = inChunkSize
	case inTrailers:
		if len(line) == 0 {
			g.state = beforeHead
		} else if folded(line) {
			return errFolded
		}
	}
	return nil
}

func folded(line []byte) bool { return line[0] == ' ' || line[0] == '\t' }

// takeField takes a line of a head.
func (g *guard) takeField(line []byte) error {
	if len(line) == 0 {
		return g.endHead()
	}
	if folded(line) {
		return errFolded
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 || line[colon-1] == ' ' || line[colon-1] == '\t' {
		return errName
	}
	switch name := line[:colon]; len(name) {
	case len("Content-Length"):
		if strings.EqualFold(string(name), "Content-Length") {
			return g.takeLength(bytes.Trim(line[colon+1:], " \t"))
		}
	case len("Transfer-Encoding"):
		if strings.EqualFold(string(name), "Transfer-Encoding") { // whether it is known is for net/http to say
			g.codings++
		}
	}
	return nil
}

func (g *guard) takeLength(value []byte) error {
	g.lengths++
	n, err := strconv.ParseUint(string(value), 10, 63) // digits alone: no sign, no blank
	if err != nil {
		return errLength
	}
	g.length = int64(n)
	return nil
}

// endHead decides what is behind the head.
func (g *guard) endHead() error {
	switch {
	case g.lengths > 0 && g.codings > 0:
		return errBothLengths
	case g.lengths > 1:
		return errLengths
	case g.codings > 1:
		return errCodings
	case g.codings == 1 && g.old:
		return errOldCoding
	case g.codings == 1:
		g.state = inChunkSize
	case g.length > 0:
		g.state, g.left = beforeHead, g.length
	default:
		g.state = beforeHead
	}
	return nil
}

// takeSize takes the line in front of a chunk.
func (g *guard) takeSize(line []byte) error {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	n, err := strconv.ParseUint(string(digits), 16, 63)
	switch {
	case err != nil:
		return errChunk
	case n == 0:
		g.state = inTrailers
	default:
		g.state, g.left = inChunk, int64(n)
	}
	return nil
}
