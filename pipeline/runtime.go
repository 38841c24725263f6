package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Runtime serves chains: it runs the dependencies that they use, switches from old chains to new ones without losing a
// request, and supervises work that outlives its response.
type Runtime struct {
	log     *slog.Logger
	current atomic.Pointer[generation]

	mu      sync.Mutex // held while serving anew and stopping, never for long
	running map[Dependency]*service
	stopped bool

	detached sync.WaitGroup  // work is added with the lock held, and not once stopped
	works    context.Context // ends when detached work must give up
	giveUp   context.CancelFunc
}

// generation is the chains that are served at one time, with the number of requests on their way through them.
type generation struct {
	chains   map[string]*Chain
	services []*service // what the chains use, by name
	users    atomic.Int64
	retire   chan struct{} // closed when the generation is not the current one and its last request is over
	once     sync.Once
	old      atomic.Bool
}

func newGeneration(chains ...*Chain) *generation {
	g := &generation{chains: map[string]*Chain{}, retire: make(chan struct{})}
	for _, c := range chains {
		g.chains[c.route] = c
	}
	return g
}

func (g *generation) leave() {
	if g.users.Add(-1) == 0 && g.old.Load() {
		g.once.Do(func() { close(g.retire) })
	}
}

// NewRuntime makes a runtime that serves nothing yet. log gets what dependencies and detached work fail with; nil is the
// default logger.
func NewRuntime(log *slog.Logger) *Runtime {
	if log == nil {
		log = slog.Default()
	}
	r := &Runtime{log: log, running: map[Dependency]*service{}}
	r.works, r.giveUp = context.WithCancel(context.Background())
	r.current.Store(newGeneration())
	return r
}

// Serve makes the chains the ones that requests go through, one for each route. Their dependencies are started; then all
// routes switch in one step; requests that are on their way finish on the old chains; then dependencies that nobody uses any
// more are stopped. Serve returns when the switch is made. An error leaves everything as it was.
func (r *Runtime) Serve(chains ...*Chain) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return fmt.Errorf("the runtime was stopped")
	}
	if err := eachOnce(chains); err != nil {
		return err
	}
	wanted, err := dependencies(chains)
	if err != nil {
		return err
	}
	next := newGeneration(chains...)
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		next.services = append(next.services, r.hold(wanted[name]))
	}
	for _, c := range chains {
		c.runtime.Store(r)
	}
	go r.retire(r.current.Swap(next))
	return nil
}

// hold makes a dependency run for one more generation. The lock is held.
func (r *Runtime) hold(d Dependency) *service {
	s := r.running[d]
	if s == nil || s.holders == 0 { // one that nobody holds is about to stop; the new one runs after it
		s = start(d, r.log, s)
		r.running[d] = s
	}
	s.holders++
	return s
}

func eachOnce(chains []*Chain) error {
	seen := map[string]bool{}
	for i, c := range chains {
		if c == nil {
			return fmt.Errorf("chain %d is nil", i+1)
		}
		if seen[c.route] {
			return fmt.Errorf("two chains for the route %s", c.route)
		}
		seen[c.route] = true
	}
	return nil
}

// retire waits for the last request of an old generation, and stops what no other one uses.
func (r *Runtime) retire(g *generation) {
	g.old.Store(true)
	g.users.Add(1)
	g.leave()
	<-g.retire
	unused := r.letGo(g)
	stop(unused)
	r.forget(unused)
}

// letGo gives the dependencies of a generation back, and returns those that nobody holds any more.
func (r *Runtime) letGo(g *generation) (unused []*service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range g.services {
		if s.holders--; s.holders == 0 {
			unused = append(unused, s)
		}
	}
	return unused
}

// forget drops dependencies that have stopped, but for those that run again.
func (r *Runtime) forget(services []*service) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range services {
		if r.running[s.dependency] == s {
			delete(r.running, s.dependency)
		}
	}
}

// Handle takes a request through the chain that is served for a route. served is false if there is none.
func (r *Runtime) Handle(route string, c Client) (served bool, err error) {
	g := r.enter()
	defer g.leave()
	chain := g.chains[route]
	if chain == nil {
		return false, nil
	}
	return true, chain.Serve(c)
}

// Chain is the chain that is served for a route now; nil if there is none.
func (r *Runtime) Chain(route string) *Chain { return r.current.Load().chains[route] }

// enter counts the caller as a user of the current generation.
func (r *Runtime) enter() *generation {
	for {
		g := r.current.Load()
		g.users.Add(1)
		if r.current.Load() == g {
			return g
		}
		g.leave() // it was replaced in between: its dependencies may be about to stop
	}
}

// Ready tells whether every dependency of the chains that are served now has reported that it is ready.
func (r *Runtime) Ready() bool { return r.Waiting() == "" }

// Waiting is the name of a dependency that is not ready yet, the first by name; "" if all are.
func (r *Runtime) Waiting() string {
	for _, s := range r.current.Load().services {
		if !s.ready.Load() {
			return s.dependency.Name()
		}
	}
	return ""
}

// Stop ends the runtime: it waits for detached work until ctx ends, cuts what is left, and stops every dependency. It returns
// when all of that has returned. Requests are the server's to finish before.
func (r *Runtime) Stop(ctx context.Context) {
	r.mu.Lock()
	r.stopped = true
	services := slices.Collect(maps.Values(r.running))
	r.mu.Unlock()

	over := make(chan struct{})
	go func() {
		r.detached.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
		r.giveUp()
		<-over
	}
	r.giveUp()
	stop(services)
}
