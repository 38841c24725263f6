package workers

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	maxPolls  = 128             // polls that may be in flight at the same time
	slowPoll  = time.Second     // one that lasts longer gives its place to another
	staleFor  = 3               // intervals after which a report counts for nothing, although no other has come
	wideFleet = 1000            // engines from which on the polls of a round take the whole interval
	leastGap  = 1 * time.Second // shortest interval that a worker may ask for
)

// LoadSettings say how engines are asked for their load.
type LoadSettings struct {
	// Interval is the time between two polls of a worker, if none of its group (same model, type and connection mode) asks for
	// another one: then it is the shortest that one asks for. Above 0.
	Interval time.Duration

	// Wanted tells whether somebody reads load reports now; it is called often and must be quick. If nobody does, only the groups
	// are polled in which a worker has an overload ceiling. nil: always.
	Wanted func() bool
}

// LoadMonitor polls the engines of ready workers for their load, each at once when its worker becomes ready and then in rounds, at its
// interval; a large fleet is not asked all at the same time. Every result is applied as it comes:
// a report takes the place of the one before; without one the worker has none, and is not overloaded. An engine has one poll in
// flight at most, is asked once however many of its ranks are registered, and a slow one delays no other.
//
// Cost: one goroutine and one timer, and for each poll a goroutine and a connection while it lasts.
type LoadMonitor struct {
	registry *Registry
	settings LoadSettings
	log      *slog.Logger
	onPoll   func(p Poll)
	clients  clients
	alarm    alarm

	mu     sync.Mutex // never held while the registry's is taken
	began  time.Time
	polls  map[string]*poll
	groups map[slot]*loadGroup
	agenda agenda[*poll]
	flying int // polls that have a place
}

// NewLoadMonitor makes a monitor; nothing is polled before Run. A nil logger logs nothing.
func NewLoadMonitor(registry *Registry, s LoadSettings, log *slog.Logger) *LoadMonitor {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if s.Wanted == nil {
		s.Wanted = func() bool { return true }
	}
	return &LoadMonitor{
		registry: registry, settings: s, log: log, onPoll: func(Poll) {},
		clients: newClients(false), alarm: newAlarm(),
	}
}

// Poll is how the question for an engine's load went.
type Poll struct {
	Mode    Mode
	Result  PollResult
	Took    time.Duration
	Ignored Fields // of a report: numbers that an engine cannot have
}

// OnPoll asks for a call after each poll whose result counts. It is called by many goroutines, and set before Run.
func (m *LoadMonitor) OnPoll(f func(p Poll)) { m.onPoll = f }

// Name is the name of this work.
func (*LoadMonitor) Name() string { return "loads" }

// Interval is the time between two polls of a worker that asks for no other: how long a verdict holds at most.
func (m *LoadMonitor) Interval() time.Duration { return m.settings.Interval }

// Run polls until ctx ends, then waits for the polls in flight, which end with it, and returns nil. It leaves no report behind:
// nobody would renew them.
func (m *LoadMonitor) Run(ctx context.Context, ready func()) error {
	m.mu.Lock()
	m.began = time.Now()
	m.polls, m.groups, m.agenda, m.flying = map[string]*poll{}, map[slot]*loadGroup{}, nil, 0
	m.mu.Unlock()
	defer m.forgetAll()
	defer m.registry.Follow(m)()
	ready()

	var polls sync.WaitGroup
	defer polls.Wait()
	m.alarm.heed(ctx, func() time.Duration {
		for l, ok := m.launch(); ok; l, ok = m.launch() {
			if l.idle {
				m.drop(l.members)
				continue
			}
			polls.Go(func() { m.poll(ctx, l) })
		}
		return m.pause()
	})
	return nil
}

// poll asks one engine and applies what it learns, unless ctx has ended.
func (m *LoadMonitor) poll(ctx context.Context, l sortie) {
	release := sync.OnceFunc(m.release)
	slow := time.AfterFunc(slowPoll, release)
	stale := m.expire(l)
	asked := time.Now()
	got := l.source.poll(ctx)
	stale()
	slow.Stop()
	release()
	if ctx.Err() == nil && m.current(l) {
		received := time.Now()
		m.onPoll(Poll{l.members[0].Mode(), got.result, received.Sub(asked), got.ignored()})
		m.note(l, &got)
		for _, w := range l.members {
			m.apply(w, got.report(w, asked, received))
		}
	}
	m.land(l.poll)
}

// expire takes reports away that become too old while their engine is being asked. stop ends that.
func (m *LoadMonitor) expire(l sortie) (stop func()) {
	var timers []*time.Timer
	for _, w := range l.members {
		old := w.Report()
		if old == nil {
			continue
		}
		timers = append(timers, time.AfterFunc(time.Until(old.Received.Add(staleFor*l.interval)), func() {
			if m.registry.expire(w, old) {
				m.log.Warn("load report is too old", "worker", w.URL(), "received", old.Received)
			}
		}))
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// apply gives a worker its report, or none.
func (m *LoadMonitor) apply(w *Worker, r *Report) {
	edge := m.registry.settle(w, r)
	switch {
	case !edge:
	case r == nil:
		m.log.Info("worker is not overloaded any more: its load is not known", "worker", w.URL())
	case w.Settings().Overload.Over(r):
		m.log.Info("worker is overloaded", "worker", w.URL(), "waiting", r.Waiting, "token_usage", r.Usage)
	default:
		m.log.Info("worker is not overloaded any more", "worker", w.URL(), "waiting", r.Waiting, "token_usage", r.Usage)
	}
}

// note logs the first failure of an engine, and that it has recovered; the failures between quietly.
func (m *LoadMonitor) note(l sortie, got *polled) {
	s, worker := l.source, l.members[0].URL()
	was := s.failing
	s.failing = got.result != PollOK
	if !s.failing {
		m.noteIgnored(s, worker, got.ignored())
	}
	switch {
	case !s.failing && was:
		m.log.Info("load of the worker is known again", "worker", worker)
	case !s.failing:
	case was:
		m.log.Debug("load of the worker is not known", "worker", worker, "result", got.result.String(), "error", got.err)
	case got.result == PollUnsupported:
		m.log.Info("worker tells no load", "worker", worker)
	default:
		m.log.Warn("load of the worker is not known", "worker", worker, "result", got.result.String(), "error", got.err)
	}
}

// noteIgnored logs that an engine reports numbers that cannot be, once until its reports are whole again.
func (m *LoadMonitor) noteIgnored(s *loadSource, worker string, ignored Fields) {
	level := slog.LevelWarn
	if s.strange {
		level = slog.LevelDebug
	}
	if s.strange = ignored != 0; s.strange {
		m.log.Log(context.Background(), level, "numbers of the worker's load report cannot be, they are ignored", "worker", worker, "fields", ignored.String())
	}
}

// drop takes the reports of workers away that are not polled now.
func (m *LoadMonitor) drop(ws []*Worker) (overloaded int) {
	for _, w := range ws {
		if w.Report() == nil && !w.Overloaded() {
			continue
		}
		if m.registry.settle(w, nil) {
			overloaded++
		}
	}
	return overloaded
}

func (m *LoadMonitor) forgetAll() {
	var all []*Worker
	m.mu.Lock()
	for _, p := range m.polls {
		all = append(all, p.members...)
	}
	m.mu.Unlock()
	if n := m.drop(all); n > 0 {
		m.log.Warn("load monitoring ends, overload verdicts are dropped", "workers", n)
	}
}
