package stages

import (
	"errors"
	"flag"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

var update = flag.Bool("update", false, "rewrite testdata/ends.txtar; read what has changed")

// ending is one way in which a request ends: the settings, the number of engines, what is done, and the status that the client
// gets (0: none).
type ending struct {
	name    string
	engines int
	with    func(s *rigging)
	do      func(t *testing.T, r *rig) *caller
	status  int
	aborted bool // the answer ends visibly broken
}

// faulty asks with the given faults in the engines, the first for the first.
func faulty(body string, faults ...engine.Fault) func(*testing.T, *rig) *caller {
	return func(_ *testing.T, r *rig) *caller {
		for i, f := range faults {
			r.engines[i].SetFaults(f)
		}
		return r.ask(post(chatPath, body))
	}
}

// leaving asks, and leaves at a moment that is waited for.
func leaving(body string, fault engine.Fault, when func(r *rig) bool) func(*testing.T, *rig) *caller {
	return func(t *testing.T, r *rig) *caller {
		r.engines[0].SetFaults(fault)
		c := post(chatPath, body)
		over := make(chan struct{})
		go func() {
			defer close(over)
			r.ask(c)
		}()
		require.Eventually(t, func() bool { return when(r) }, patience, time.Millisecond)
		c.leave()
		<-over
		return c
	}
}

// during puts a stage into the chain, before or behind the named one.
func during(name string, behind bool, act func(x *pipeline.Exchange)) func(*testing.T, *rig) *caller {
	return func(t *testing.T, r *rig) *caller {
		s := pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			act(x)
			return next(x)
		})
		r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
			if behind {
				return c.After(name, s)
			}
			return c.Before(name, s)
		})
		return r.ask(chat())
	}
}

func boom(*pipeline.Exchange) { panic("boom") }

// surprise panics when a worker's head or first byte comes.
type surprise struct{ atHead bool }

func (s surprise) Head(*pipeline.Exchange, *pipeline.Leg, int) {
	if s.atHead {
		panic("boom")
	}
}

func (s surprise) FirstByte(*pipeline.Exchange, *pipeline.Leg) { panic("boom") }

// departure is a client that leaves when the worker's head has come.
type departure struct{}

func (departure) Head(x *pipeline.Exchange, _ *pipeline.Leg, _ int) { x.Client.(*caller).leave() }
func (departure) FirstByte(*pipeline.Exchange, *pipeline.Leg)       {}

// breakingOff is an upload that fails when its first bytes have come.
type breakingOff struct{ sent bool }

func (b *breakingOff) Read(p []byte) (int, error) {
	if b.sent {
		return 0, errors.New("connection reset")
	}
	b.sent = true
	return copy(p, small[:20]), nil
}

func states(names ...string) func(*rigging) {
	return func(s *rigging) {
		s.states = names
		strict(&s.worker, false)
	}
}

func attempts(n int) func(*rigging) { return func(s *rigging) { s.retry.MaxAttempts = n } }

func unretried(s *rigging) { s.retry.MaxAttempts, s.buffering.Retries = 1, false }

func impatient(s *rigging) {
	s.worker.HTTPPool.RequestTimeout = 50 * time.Millisecond
	s.retry.MaxAttempts = 1
}

func unqueued(s *rigging) { s.admission.Requests, s.admission.Queue = 1, 0 }

func crowded(s *rigging) { s.admission.Requests = 1 }

// queuing asks, and does something once the request waits for admission.
func (r *rig) queuing(t *testing.T, c *caller, then func()) *caller {
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.ask(c)
	}()
	require.Eventually(t, func() bool { return r.limiter.permits.sample().waiting == 1 }, patience, time.Millisecond)
	then()
	<-over
	return c
}

func inFlightWith(r *rig) bool {
	return r.workers[0].InFlight() == 1 && r.engines[0].State().InFlight == 1
}

func silent() engine.Fault { return engine.Fault{HangHeadMillis: -1} }

var endings = []ending{
	{"an answer that ends well", 1, nil, faulty(small), 200, false},
	{"a stream that ends well", 1, nil, faulty(stream), 200, false},
	{"a refusal of the worker", 1, nil, faulty(small, engine.Fault{Status: 400}), 400, false},
	{"a worker at its capacity, and no other", 1, attempts(2), faulty(small, engine.Fault{Status: 429}), 429, false},
	{"a worker that fails, then another one", 2, nil, faulty(small, engine.Fault{Status: 503}), 200, false},
	{"a worker that fails for good", 1, attempts(3), faulty(small, engine.Fault{Status: 503}), 503, false},
	{"a worker that fails for good, retries off", 1, unretried, faulty(small, engine.Fault{Status: 503}), 503, false},
	{"a stream that the worker refuses to begin", 1, attempts(2), faulty(stream, engine.Fault{Status: 503}), 503, false},
	{"an internal error of the only worker", 1, nil, faulty(small, engine.Fault{Status: 500}), 500, false},
	{"an internal error of one worker, then of the other", 2, nil, faulty(small, engine.Fault{Status: 500}, engine.Fault{Status: 500}), 500, false},
	{"a worker that closes instead of answering, then another one", 2, nil, faulty(small, engine.Fault{Close: true}), 200, false},
	{"a worker that nobody listens for", 1, attempts(2), func(_ *testing.T, r *rig) *caller {
		r.engines[0].Down()
		return r.ask(chat())
	}, 502, false},
	{"an answer that is cut, then a whole one", 2, nil, faulty(small, engine.Fault{CutAfterBytes: at(9)}), 200, false},
	{"a stream that is cut behind two events", 2, nil, faulty(stream, engine.Fault{CutAfterEvents: at(2)}), 200, true},
	{"a stream that is cut within an event", 2, nil, faulty(stream, engine.Fault{CutAfterBytes: at(9)}), 200, true},
	{"a worker that does not answer in time", 1, impatient, faulty(small, silent()), 504, false},
	{"a stream that takes longer than its time", 1, impatient, faulty(stream, engine.Fault{HangAfterEvents: at(2)}), 200, true},

	{"a client that leaves before the head", 1, nil, leaving(small, silent(), inFlightWith), 0, true},
	{"a client that leaves before the head of a stream", 1, nil, leaving(stream, silent(), inFlightWith), 0, true},
	{"a client that leaves in the middle of an answer", 1, nil, func(t *testing.T, r *rig) *caller {
		r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(0)})
		return during("in_flight", true, func(x *pipeline.Exchange) { x.Watch(departure{}) })(t, r)
	}, 0, true},
	{"a client that leaves in the middle of a stream", 1, nil, func(_ *testing.T, r *rig) *caller {
		r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(2)})
		c := post(chatPath, stream)
		c.onWrite = func(c *caller, _ []byte) { c.leave() }
		return r.ask(c)
	}, 200, true},
	{"a client that leaves between two attempts", 1, nil, leaving(small, engine.Fault{Status: 503, RetryAfter: "20"}, func(r *rig) bool {
		w := r.workers[0]
		return w.InFlight() == 0 && w.Breaker().ConsecutiveFailures() == 1 // it is in the backoff, and not counted
	}), 0, true},
	{"a client that does not take the answer", 1, nil, func(_ *testing.T, r *rig) *caller {
		c := chat()
		c.broken = true
		return r.ask(c)
	}, 0, true},

	{"a panic before the first attempt", 1, nil, during("account", false, boom), 500, false},
	{"a panic before a worker is chosen", 1, nil, during("policy", false, boom), 500, false},
	{"a panic with a worker counted", 1, nil, during("in_flight", true, boom), 500, false},
	{"a panic at the worker's head", 1, nil, during("in_flight", true, func(x *pipeline.Exchange) { x.Watch(surprise{true}) }), 500, false},
	{"a panic in the middle of a stream", 1, nil, func(t *testing.T, r *rig) *caller {
		r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
			return c.Before("account", pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
				x.Watch(surprise{false})
				return next(x)
			}))
		})
		return r.ask(post(chatPath, stream))
	}, 200, true},

	{"no place in the queue", 1, unqueued, func(t *testing.T, r *rig) *caller {
		require.True(t, r.limiter.permits.enter())
		defer r.limiter.permits.release()
		return r.ask(chat())
	}, 429, false},
	{"too long a wait in the queue", 1, func(s *rigging) { s.admission = AdmissionSettings{Requests: 1, Queue: 1, Wait: time.Millisecond} }, func(t *testing.T, r *rig) *caller {
		require.True(t, r.limiter.permits.enter())
		defer r.limiter.permits.release()
		return r.ask(chat())
	}, 503, false},
	{"a wait in the queue, then an answer", 1, crowded, func(t *testing.T, r *rig) *caller {
		require.True(t, r.limiter.permits.enter())
		return r.queuing(t, chat(), r.limiter.permits.release)
	}, 200, false},
	{"a client that leaves the queue", 1, crowded, func(t *testing.T, r *rig) *caller {
		require.True(t, r.limiter.permits.enter())
		defer r.limiter.permits.release()
		c := chat()
		return r.queuing(t, c, c.leave)
	}, 0, true},

	{"a bad request", 1, nil, faulty(`{"model":`), 400, false},
	{"a body that is declared too large", 1, nil, func(_ *testing.T, r *rig) *caller { return r.ask(sized(1<<20 + 1)) }, 413, false},
	{"a body that turns out to be too large", 1, nil, func(_ *testing.T, r *rig) *caller {
		return r.ask(chunked(chatPath, strings.Repeat(" ", 1<<20)+small))
	}, 413, false},
	{"an upload that breaks off", 1, nil, func(_ *testing.T, r *rig) *caller {
		c := chat()
		c.body = &breakingOff{}
		return r.ask(c)
	}, 400, false},
	{"a model that nobody serves", 1, nil, faulty(`{"model":"m2","messages":[{"role":"user","content":"hi"}]}`), 404, false},
	{"no worker at all", 0, attempts(2), func(_ *testing.T, r *rig) *caller { return r.ask(chat()) }, 503, false},
	{"nobody available", 2, func(s *rigging) {
		states("open", "unhealthy")(s)
		s.retry.MaxAttempts = 2
	}, faulty(small), 503, false},
	{"everybody overloaded", 2, states("overloaded", "overloaded"), faulty(small), 503, false},
	{"a chosen worker that becomes overloaded", 1, nil, during("policy", true, func(x *pipeline.Exchange) { x.Target().SetOverloaded(true) }), 503, false},
	{"a chosen worker whose breaker opens", 2, states(), during("policy", true, func(x *pipeline.Exchange) {
		if x.Number == 1 {
			trip(x.Target())
		}
	}), 200, false},

	{"an upload that is streamed", 1, unretried, faulty(small), 200, false},
	{"an upload that is streamed, and a stream for an answer", 1, unretried, faulty(stream), 200, false},
	{"an upload that is streamed, and breaks off", 1, unretried, func(_ *testing.T, r *rig) *caller {
		c := sized(readAhead + 1)
		c.body = &breakingOff{}
		return r.ask(c)
	}, 400, false},
	{"an upload that is streamed, then a panic", 1, unretried, during("in_flight", true, boom), 500, false},
}

// telemetry.md, sections 4.1, 4.2 and 4.4; load-signals.md, section 2; http-dataplane.md, section 9.4. However a request ends,
// every counter is right: testdata/ends.txtar has each of them that is not 0 afterwards.
func TestHoweverARequestEndsEveryCounterIsRight(t *testing.T) {
	const file = "testdata/ends.txtar"
	want, err := txtar.ParseFile(file)
	if !*update {
		require.NoError(t, err)
		require.Len(t, want.Files, len(endings))
	}
	got := &txtar.Archive{Comment: []byte("What is counted of one request, by how it ends. See ends_test.go; -update rewrites it.\n\n")}
	for i, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			r := newRig(t, e.engines, e.with)
			c := e.do(t, r)
			require.Equal(t, e.status, c.status)
			require.Equal(t, e.aborted, c.aborted)
			require.Zero(t, c.watched(), "nobody waits for the client any more")
			r.requireQuiet(t)
			counts := script(r.counted(t))
			got.Files = append(got.Files, txtar.File{Name: e.name, Data: []byte(counts)})
			if !*update {
				require.Equal(t, want.Files[i].Name, e.name)
				require.Equal(t, string(want.Files[i].Data), counts)
			}
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o644))
	}
}

// load-signals.md, section 2: many requests with all kinds of ends at once; every count ends at 0, and none is ever negative.
func TestAStormOfRequestsLeavesNothingInFlight(t *testing.T) {
	clients, each := 50, 200
	if raceEnabled {
		clients, each = 8, 60
	}
	r := newRig(t, 3, func(s *rigging) {
		s.worker.Breaker.Disabled = true
		s.worker.HTTPPool.RequestTimeout = 100 * time.Millisecond
	})
	look := func() {
		for _, w := range r.workers {
			if n := w.InFlight(); n < 0 || n > int64(clients) {
				t.Errorf("%d requests in flight of %d", n, clients)
			}
		}
	}
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.After("in_flight", pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			look()
			if x.ID == "panic" {
				panic("boom")
			}
			return next(x)
		}))
	})
	for _, e := range r.engines {
		e.SetFaults(
			engine.Fault{Probability: 0.1, Status: 503}, engine.Fault{Probability: 0.1, Status: 500}, engine.Fault{Probability: 0.1, Close: true},
			engine.Fault{Probability: 0.1, CutAfterBytes: at(40)}, engine.Fault{Probability: 0.02, HangHeadMillis: -1},
			engine.Fault{Probability: 0.1, Reset: true, CutAfterEvents: at(1)},
		)
	}
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for range each {
				r.ask(stormy())
				look()
			}
		})
	}
	running.Wait()
	r.requireQuiet(t)
	require.Equal(t, clients*each, r.count(t, "http_requests_total{POST "+chatPath+"}"))
	require.Equal(t, clients*each, r.total(t, "http_responses_total{"), "each has had one end")
	sent := 0
	for _, w := range r.workers {
		sent += int(w.Sent())
	}
	require.Equal(t, r.total(t, "worker_selection_total{"), sent, "whoever is chosen is counted")
}

// total adds up all series of a family.
func (r *rig) total(t testing.TB, family string) (sum int) {
	t.Helper()
	for series, n := range r.counted(t) {
		if strings.HasPrefix(series, family) {
			sum += n
		}
	}
	return sum
}

// stormy is a request of any kind.
func stormy() *caller {
	body := small
	if rand.IntN(2) == 0 {
		body = stream
	}
	c := post(chatPath, body)
	switch rand.IntN(8) {
	case 0:
		c.header.Set("X-Request-Id", "panic")
	case 1:
		c.onWrite = func(c *caller, _ []byte) { c.leave() }
	case 2:
		c.broken = true
	case 3:
		c.leave() // it had left before it was heard
	case 4:
		c.header = http.Header{} // no content type
	}
	return c
}
