package stages

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// load-signals.md, section 2: a stream is in flight until its body ends; a client that leaves takes its own count along.
func TestAStreamIsInFlightUntilItsBodyEnds(t *testing.T) {
	const clients = 3
	r := newRig(t, 1, nil)
	r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(2)})
	var callers [clients]*caller
	begun := make(chan struct{}, clients)
	var running sync.WaitGroup
	for i := range callers {
		callers[i] = post(chatPath, stream)
		callers[i].onWrite = func(c *caller, _ []byte) {
			c.onWrite = nil
			begun <- struct{}{}
		}
		running.Go(func() { r.ask(callers[i]) })
	}
	for range clients {
		<-begun
	}
	require.EqualValues(t, clients, r.workers[0].InFlight())
	require.Equal(t, clients, r.metrics.Inflight.Len())
	for left, c := range callers {
		c.leave()
		require.Eventually(t, func() bool { return r.workers[0].InFlight() == int64(clients-left-1) }, patience, time.Millisecond)
		require.Eventually(t, func() bool { return r.engines[0].State().InFlight == int64(clients-left-1) }, patience, time.Millisecond, "the worker is told")
	}
	running.Wait()
	r.requireQuiet(t)
}

// load-signals.md, section 2: "-1 after the whole upstream body has been read (not when headers arrive)".
func TestAnAnswerIsInFlightUntilItIsReadToItsEnd(t *testing.T) {
	r := newRig(t, 1, nil)
	r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(0), HangMillis: 50})
	heard := false
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.Before("forward", pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			x.Watch(atHead(func() {
				heard = true
				require.EqualValues(t, 1, r.workers[0].InFlight())
			}))
			return next(x)
		}))
	})
	require.Equal(t, 200, r.ask(chat()).status)
	require.True(t, heard)
	r.requireQuiet(t)
}

// atHead is a watcher that is told of heads.
type atHead func()

func (f atHead) Head(*pipeline.Exchange, *pipeline.Leg, int) { f() }
func (atHead) FirstByte(*pipeline.Exchange, *pipeline.Leg)   {}

// load-signals.md, section 2: each attempt has its own count, never two at once, and none during the backoff.
func TestEachAttemptIsCountedByItself(t *testing.T) {
	r := newRig(t, 3, attempts(3))
	for i, f := range []engine.Fault{{Status: 502}, {Close: true}, {CutAfterBytes: at(5)}} {
		r.engines[i].SetFaults(f)
	}
	count := func() (all [3]int64) {
		for i, w := range r.workers {
			all[i] = w.InFlight()
		}
		return all
	}
	seen := map[string][][3]int64{}
	note := func(name string) pipeline.Stage {
		return pipeline.StageFunc(name, pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			seen[name] = append(seen[name], count())
			err := next(x)
			seen[name+", afterwards"] = append(seen[name+", afterwards"], count())
			return err
		})
	}
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) { return c.Before("in_flight", note("outside")) })
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) { return c.After("in_flight", note("inside")) })
	require.Equal(t, 502, r.ask(chat()).status)
	none := [3]int64{}
	require.Equal(t, [][3]int64{none, none, none}, seen["outside"])
	require.Equal(t, [][3]int64{none, none, none}, seen["outside, afterwards"], "nor in the backoff")
	require.ElementsMatch(t, [][3]int64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, seen["inside"])
}

// load-signals.md, section 2: "upstream refuses connection: counter back to 0 before the error reaches the client".
func TestARefusedConnectionIsNotInFlight(t *testing.T) {
	r := newRig(t, 1, attempts(1))
	r.engines[0].Down()
	c := chat()
	c.onWrite = func(*caller, []byte) { require.Zero(t, r.workers[0].InFlight()) }
	require.Equal(t, 502, r.ask(c).status)
	require.Equal(t, "call_upstream_connection_failed", c.code())
	require.EqualValues(t, 1, r.workers[0].Sent())
}

// load-signals.md, section 2: an old request that ends is not taken off a new registration of the same URL.
func TestALateEndIsNotANewWorkersEnd(t *testing.T) {
	r := newRig(t, 1, nil)
	was := r.workers[0]
	r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(2)})
	c := post(chatPath, stream)
	c.onWrite = func(c *caller, _ []byte) {
		c.onWrite = nil
		require.True(t, r.registry.Remove(was))
		r.metrics.Workers.Forget(was.Series())
		r.register(t, newWorker(t, was.URL(), "m1", workers.DefaultSettings()), "ready")
		require.EqualValues(t, 1, was.InFlight())
		c.leave()
	}
	r.ask(c)
	require.Zero(t, was.InFlight())
	require.Zero(t, r.workers[1].InFlight())
	require.Zero(t, r.total(t, "worker_cb_outcomes_total"), "telemetry.md, section 2: a late event brings no series back")
}

// policies.md, section 14.4: the key is active until the response has ended; a request without one is in flight alone.
func TestARoutingKeyIsActiveWhileItsRequestIs(t *testing.T) {
	r := newRig(t, 1, nil)
	w := r.workers[0]
	r.engines[0].SetFaults(engine.Fault{HangAfterEvents: at(2)})
	var running sync.WaitGroup
	ask := func(headers ...string) *caller {
		begun := make(chan struct{})
		c := post(chatPath, stream, headers...)
		c.onWrite = func(c *caller, _ []byte) { c.onWrite = nil; close(begun) }
		running.Go(func() { r.ask(c) })
		<-begun
		return c
	}
	one, two, none := ask("X-Smg-Routing-Key", "K"), ask("X-Smg-Routing-Key", "K"), ask()
	require.Equal(t, []int64{3, 2, 1}, []int64{w.InFlight(), int64(w.KeyInFlight("K")), w.ActiveKeys()})
	one.leave()
	require.Eventually(t, func() bool { return w.KeyInFlight("K") == 1 }, patience, time.Millisecond)
	require.EqualValues(t, 1, w.ActiveKeys())
	two.leave()
	none.leave()
	running.Wait()
	require.Zero(t, w.ActiveKeys())
	r.requireQuiet(t)
}
