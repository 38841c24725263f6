package forward

import (
	"maps"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/workers"
)

// Options are what a [Transport] is made of. The zero value keeps no idle connections; see [DefaultPool].
type Options struct {
	Pool     Pool                                  // for RoundTrip; calls of the stage bring their worker's own
	TLS      workers.TLS                           // for https workers; nil is the system's roots
	Proxy    func(*http.Request) (*url.URL, error) // nil is no proxy, whatever the environment says
	OnResend func()                                // told of each request that is sent a second time; nil is nobody

	// OnConnection is told of each connection that a request got: whether it was there already, and if not, how long it took to
	// make it. It comes on the request's way, from many at once, and must be quick; nil is nobody.
	OnConnection func(reused bool, took time.Duration)
}

// DefaultPool is 10 s to connect, and 500 idle connections for an address, for 3 s each: less than the 5 s after which
// engines close them.
var DefaultPool = Pool{DialTimeout: 10 * time.Second, MaxIdle: 500, IdleTimeout: 3 * time.Second}

// Transport sends requests to workers over HTTP/1.1, with as little work as that takes. https, HTTP/2 and proxies go through
// a [http.Transport] of its own. It is an [http.RoundTripper]; [To] makes the stage of it that a chain ends with.
//
// A request that failed before any byte of an answer came is sent once more at once, on a new connection, whatever its
// method: most often the worker has closed a connection just when it was to be reused. Not sent again are bodies that were not
// read into memory, and those of 1 MiB and more.
type Transport struct {
	options Options
	sweeper sweeper

	mu     sync.Mutex // of changes to stacks and others
	stacks atomic.Pointer[map[address]*stack]
	others map[Pool]*adapter // what carries https, HTTP/2 and proxied calls

	open atomic.Int64
	idle atomic.Int64
}

var (
	_ http.RoundTripper = (*Transport)(nil)
	_ sender            = (*Transport)(nil)
)

// NewTransport makes a transport. It starts nothing.
func NewTransport(o Options) *Transport {
	t := &Transport{options: o, others: map[Pool]*adapter{}}
	t.stacks.Store(&map[address]*stack{})
	t.sweeper.sweep = t.sweep
	return t
}

// send sends a call and returns its answer once its head has come. The error is a *failure.
func (t *Transport) send(c *call) (*answer, error) {
	if c.Endpoint.Scheme != "http" || c.HTTP2 || t.options.Proxy != nil {
		return t.other(c.Pool).send(c)
	}
	if err := c.render(); err != nil {
		return nil, &failure{Kind: errRequest, Cause: err}
	}
	if passed(c.Deadline) {
		return nil, c.failed(errTimeout, false, errLate)
	}
	f := t.attempt(c, false)
	if f != nil && f.mayResend(c) {
		t.resent()
		f = t.attempt(c, true)
	}
	if f != nil {
		return nil, f
	}
	return &c.answer, nil
}

func (t *Transport) attempt(c *call, fresh bool) *failure {
	on, f := t.connect(c, fresh)
	if f != nil {
		return f
	}
	return c.exchange(on)
}

// mayResend tells whether a call that failed so is to be sent once more.
func (f *failure) mayResend(c *call) bool {
	return !f.Received && (f.Kind == errDial || f.Kind == errSend) && c.resendable()
}

func (t *Transport) connected(reused bool, took time.Duration) {
	if t.options.OnConnection != nil {
		t.options.OnConnection(reused, took)
	}
}

func (t *Transport) resent() {
	if t.options.OnResend != nil {
		t.options.OnResend()
	}
}

// stack is the idle connections of an address. Requests find it without a lock.
func (t *Transport) stack(a address) *stack {
	if s := (*t.stacks.Load())[a]; s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old := *t.stacks.Load()
	if s := old[a]; s != nil {
		return s
	}
	s := &stack{transport: t, address: a}
	grown := maps.Clone(old)
	grown[a] = s
	t.stacks.Store(&grown)
	return s
}

func (t *Transport) sweep() (next time.Duration) {
	for _, s := range *t.stacks.Load() {
		if at := s.sweep(); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next
}

// Forget closes the idle connections to an address (host:port), and keeps none of those in use: the worker is gone.
func (t *Transport) Forget(dial string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := maps.Clone(*t.stacks.Load())
	for a, s := range rest {
		if a.dial == dial {
			s.empty(true)
			delete(rest, a)
		}
	}
	t.stacks.Store(&rest)
}

// CloseIdleConnections closes the connections that nobody uses.
func (t *Transport) CloseIdleConnections() {
	t.sweeper.stop()
	for _, s := range *t.stacks.Load() {
		s.empty(false)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.others {
		o.closeIdle()
	}
}

// Connections is how many connections of its own the transport has, and how many of them nobody uses.
func (t *Transport) Connections() (open, idle int64) { return t.open.Load(), t.idle.Load() }

// other is what carries the calls that are none for the lean client.
func (t *Transport) other(p Pool) *adapter {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.others[p]
	if o == nil {
		o = &adapter{rt: t.standard(p), onResend: t.resent, onConnection: t.options.OnConnection}
		t.others[p] = o
	}
	return o
}
