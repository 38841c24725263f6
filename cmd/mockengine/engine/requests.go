package engine

import (
	"strings"
	"sync"
	"time"
)

// DefaultKeep is how many requests an engine remembers unless told otherwise.
const DefaultKeep = 10_000

// maxLogBytes bounds the heads and bodies that one engine remembers; the oldest go first.
const maxLogBytes = 256 << 20

// Request is one request as it came in.
type Request struct {
	Method   string     `json:"method"`
	Path     string     `json:"path"` // without the query, which is in the first line of Head
	Head     []string   `json:"head"` // request line and header lines, byte for byte and in order
	Body     []byte     `json:"body"` // without chunk framing; base64 in JSON; what came of it if the peer broke off
	Conn     int64      `json:"conn"` // number of its connection, from 1
	At       time.Time  `json:"at"`   // when its head had come in
	ClosedAt *time.Time `json:"closed_at"`
}

// Values returns the values of all header lines of that name, in order. Case is ignored.
func (r Request) Values(name string) []string {
	var values []string
	for _, line := range r.Head[min(1, len(r.Head)):] {
		if n, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			values = append(values, strings.Trim(v, " \t"))
		}
	}
	return values
}

// record is a request in the log. Its buffer is used again when it has been dropped.
type record struct {
	data               []byte // head, then body
	head, method, path int    // lengths within data
	fate               *fate
	at                 time.Time
	complete           bool // its connection will not touch it any more
}

// requestLog keeps the last requests in a ring, which grows until it holds as many as it may.
type requestLog struct {
	keep     int // requests
	maxBytes int

	mu    sync.Mutex
	ring  []*record
	start int // the oldest
	count int
	bytes int
}

// add remembers a head. The body follows with finish; a request whose body is being sent is in the log already.
func (l *requestLog) add(h *head, f *fate, at time.Time) *record {
	if l.keep <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addLocked(h, f, at)
}

func (l *requestLog) addLocked(h *head, f *fate, at time.Time) *record {
	var r *record
	if l.count >= l.keep {
		r = l.drop()
	}
	if r == nil || !r.complete || cap(r.data) > keptBuffer {
		r = &record{}
	}
	*r = record{
		data: append(r.data[:0], h.raw...), head: len(h.raw), method: len(h.method), path: len(h.path), fate: f, at: at,
	}
	l.push(r)
	return r
}

// addWhole is add and finish in one.
func (l *requestLog) addWhole(h *head, body []byte, f *fate, at time.Time) {
	if l.keep <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finishLocked(l.addLocked(h, f, at), body)
}

func (l *requestLog) finish(r *record, body []byte) {
	if r == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finishLocked(r, body)
}

func (l *requestLog) finishLocked(r *record, body []byte) {
	r.complete = true
	if r.fate == nil {
		return // dropped in the meantime
	}
	r.data = append(r.data, body...)
	l.bytes += len(body)
	for l.bytes > l.maxBytes && l.count > 1 {
		l.drop()
	}
}

// push puts r behind the newest.
func (l *requestLog) push(r *record) {
	if l.count == len(l.ring) {
		grown := make([]*record, min(l.keep, max(64, 2*l.count)))
		for i := range l.count {
			grown[i] = l.at(i)
		}
		l.ring, l.start = grown, 0
	}
	l.ring[(l.start+l.count)%len(l.ring)] = r
	l.count++
	l.bytes += len(r.data)
}

// drop forgets the oldest request and returns it.
func (l *requestLog) drop() *record {
	r := l.at(0)
	l.ring[l.start] = nil
	l.start = (l.start + 1) % len(l.ring)
	l.count--
	l.bytes -= len(r.data)
	r.fate = nil
	return r
}

// at is the i-th request from the oldest on.
func (l *requestLog) at(i int) *record { return l.ring[(l.start+i)%len(l.ring)] }

func (l *requestLog) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.count > 0 {
		l.drop()
	}
}

// list copies the log, oldest first.
func (l *requestLog) list() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Request, l.count)
	for i := range all {
		all[i] = l.at(i).request()
	}
	return all
}

func (r *record) request() Request {
	raw := string(r.data[:r.head])
	_, target, _ := strings.Cut(raw, " ")
	out := Request{
		Method: raw[:r.method], Path: target[:r.path], Head: strings.Split(raw, "\r\n"),
		Body: append([]byte{}, r.data[r.head:]...), Conn: r.fate.number, At: r.at,
	}
	if ns := r.fate.closed.Load(); ns != 0 {
		closed := time.Unix(0, ns)
		out.ClosedAt = &closed
	}
	return out
}
