package engine

import "bytes"

// readBody returns the body of the request whose head was read last; on an error, what came of it. The slice is good until the
// next request.
func (p *peer) readBody(h *head, scratch []byte) ([]byte, error) {
	if h.chunked {
		return p.readChunked(scratch[:0])
	}
	if missing := h.length - (p.end - p.pos); missing > 0 {
		// The promise of a large body is no reason to allocate it: the buffer doubles as bytes really come.
		p.room(min(missing, keptBuffer))
	}
	for p.end-p.pos < h.length {
		if err := p.fill(); err != nil {
			return p.buf[p.pos:p.end], err
		}
	}
	body := p.buf[p.pos : p.pos+h.length]
	p.pos += h.length
	return body, nil
}

// has tells whether the body is in the buffer already.
func (p *peer) has(h *head) bool {
	if h.chunked {
		return p.end > p.pos
	}
	return p.end-p.pos >= h.length
}

func (p *peer) readChunked(body []byte) ([]byte, error) {
	for {
		size, err := p.chunkSize()
		if err != nil {
			return body, err
		}
		if size == 0 {
			return body, p.trailers()
		}
		if len(body)+size > maxBody {
			return body, errBodySize
		}
		if body, err = p.take(body, size); err != nil {
			return body, err
		}
		line, err := p.line()
		if err != nil {
			return body, err
		}
		if len(line) > 0 {
			return body, errMalformed
		}
	}
}

func (p *peer) chunkSize() (int, error) {
	line, err := p.line()
	if err != nil {
		return 0, err
	}
	size, _, _ := bytes.Cut(line, []byte(";")) // extensions mean nothing here
	return parseSize(bytes.TrimRight(size, " \t"), 16)
}

// take appends the next n bytes to body.
func (p *peer) take(body []byte, n int) ([]byte, error) {
	for n > 0 {
		if p.pos == p.end {
			p.rewind()
			if err := p.fill(); err != nil {
				return body, err
			}
		}
		part := p.buf[p.pos:min(p.end, p.pos+n)]
		body = append(body, part...)
		p.pos += len(part)
		n -= len(part)
	}
	return body, nil
}

// rewind uses the buffer's space behind the head again and again, so that a long chunked body does not make it grow.
func (p *peer) rewind() {
	if p.pos == p.end && p.end == len(p.buf) {
		p.buf = make([]byte, len(p.buf)) // the head still reads from the old one
		p.pos, p.end = 0, 0
	}
}

func (p *peer) line() ([]byte, error) {
	for seen := 0; ; {
		from := max(p.pos, p.pos+seen-1)
		if i := bytes.Index(p.buf[from:p.end], []byte("\r\n")); i >= 0 {
			line := p.buf[p.pos : from+i]
			p.pos = from + i + 2
			return line, nil
		}
		seen = p.end - p.pos
		if seen > maxHead {
			return nil, errMalformed
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

func (p *peer) trailers() error {
	for {
		line, err := p.line()
		if err != nil || len(line) == 0 {
			return err
		}
	}
}
