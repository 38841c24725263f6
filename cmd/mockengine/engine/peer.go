package engine

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstBuffer = 8 << 10  // bytes; what a connection starts with
	keptBuffer  = 1 << 20  // bytes; a larger buffer is given up after its request
	maxAhead    = 64 << 10 // bytes that are read ahead while an answer is under way
)

// fate is what the log remembers of a connection.
type fate struct {
	number int64
	closed atomic.Int64 // when the peer closed, Unix nanoseconds; 0 while it has not
}

// peer is the reading side of a connection. The connection's goroutine reads as it needs bytes; only while an answer waits does
// a second goroutine read ahead, to notice a peer that leaves. What it read is handed over, and if it is still in its read when
// the answer is over, that read becomes the connection's next one: no deadline has to stop it.
type peer struct {
	nc   net.Conn
	buf  []byte // buf[pos:end] was read and not yet used
	pos  int
	end  int
	fate *fate
	gone chan struct{} // closed when the peer has left or the connection was closed here

	spawn   func(func()) // starts a goroutine that the engine waits for when it closes
	watched bool         // there may be something to collect from the second goroutine

	mu      sync.Mutex
	left    bool // gone is closed
	reading bool // the second goroutine runs
	wanted  bool // an answer is under way: go on reading
	ahead   []byte
	back    chan struct{} // a token for each time that the second goroutine got something
	scratch [512]byte
}

func newPeer(nc net.Conn, number int64, spawn func(func())) *peer {
	return &peer{
		nc: nc, buf: make([]byte, firstBuffer), fate: &fate{number: number}, spawn: spawn,
		gone: make(chan struct{}), back: make(chan struct{}, 1),
	}
}

// head waits for a whole request head and returns it without its blank line.
func (p *peer) head() ([]byte, error) {
	p.compact()
	for seen := 0; ; {
		// Search again from three bytes back: the blank line may be cut anywhere.
		from := max(p.pos, p.pos+seen-3)
		if i := bytes.Index(p.buf[from:p.end], []byte("\r\n\r\n")); i >= 0 {
			raw := p.buf[p.pos : from+i]
			p.pos = from + i + 4
			return raw, nil
		}
		seen = p.end - p.pos
		if seen > maxHead {
			return nil, errHeadSize
		}
		if err := p.fill(); err != nil {
			return nil, err
		}
	}
}

// compact makes room at the end of the buffer. Slices of the last request are void after it.
func (p *peer) compact() {
	rest := p.buf[p.pos:p.end]
	if len(p.buf) > keptBuffer {
		p.buf = make([]byte, max(firstBuffer, len(rest)))
	}
	p.end = copy(p.buf, rest)
	p.pos = 0
}

// room makes space for at least n more bytes. The bytes so far may move to a new buffer; slices of the old one stay good.
func (p *peer) room(n int) {
	if len(p.buf)-p.end >= n {
		return
	}
	grown := make([]byte, max(2*len(p.buf), p.end+n))
	copy(grown, p.buf[:p.end])
	p.buf = grown
}

// fill adds at least one byte to the buffer, or returns why there will be none.
func (p *peer) fill() error {
	if p.watched && p.collect() {
		return nil
	}
	p.room(1)
	n, err := p.nc.Read(p.buf[p.end:])
	p.end += n
	if n > 0 {
		return nil
	}
	p.mu.Lock()
	p.leave(err)
	p.mu.Unlock()
	return err
}

// watch makes sure that a peer that leaves closes gone, until the next fill.
func (p *peer) watch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted = true
	if p.reading || p.left || len(p.ahead) >= maxAhead {
		return
	}
	p.reading, p.watched = true, true
	p.spawn(p.readAhead)
}

func (p *peer) readAhead() {
	for more := true; more; {
		n, err := p.nc.Read(p.scratch[:])
		p.mu.Lock()
		p.ahead = append(p.ahead, p.scratch[:n]...)
		if err != nil {
			p.leave(err)
		}
		more = err == nil && p.wanted && len(p.ahead) < maxAhead
		p.reading = more
		p.mu.Unlock()
		select {
		case p.back <- struct{}{}:
		default:
		}
	}
}

// collect takes what was read ahead, and waits for it if a read is under way. It returns false if there is nothing to wait for.
func (p *peer) collect() bool {
	for {
		p.mu.Lock()
		p.wanted = false
		n, reading := len(p.ahead), p.reading
		if n > 0 {
			p.room(n)
			p.end += copy(p.buf[p.end:], p.ahead)
			p.ahead = p.ahead[:0]
		}
		p.mu.Unlock()
		p.watched = reading
		if n > 0 || !reading {
			return n > 0
		}
		<-p.back
	}
}

// leave notes that no more bytes will come; the caller holds mu. A connection closed on this side has no time of the peer's leaving.
func (p *peer) leave(err error) {
	if p.left {
		return
	}
	p.left = true
	if !errors.Is(err, net.ErrClosed) {
		p.fate.closed.Store(time.Now().UnixNano())
	}
	close(p.gone)
}

// lost notes a write that failed.
func (p *peer) lost(err error) {
	p.mu.Lock()
	p.leave(err)
	p.mu.Unlock()
}
