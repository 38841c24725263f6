package stages

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// load-signals.md, section 6.1: the re-check between choice and dispatch.
func TestDispatchShedsAWorkerThatBecameOverloaded(t *testing.T) {
	r := newRig(t, 2, nil)
	c := during("policy", true, func(x *pipeline.Exchange) { x.Target().SetOverloaded(true) })(t, r)
	require.Equal(t, 503, c.status)
	require.Equal(t, "worker_overload_protection_shed", c.code())
	require.Equal(t, "10", c.head.Get("Retry-After"))
	require.Contains(t, c.got.String(), "for model 'm1' became overloaded before dispatch")
	require.NotContains(t, c.got.String(), "127.0.0.1", "DECISIONS 29: no text names a worker's URL")
	require.Equal(t, []int{0, 0}, r.asked(), "no other worker is chosen")
	require.Equal(t, 1, r.count(t, "worker_overload_shed_total{dispatch}"))
	require.Zero(t, r.count(t, "worker_overload_shed_total{selection}"))
	require.Zero(t, r.total(t, "worker_retries_total"))
}

// halfOpen is a rig whose first worker is on trial, one request at a time.
func halfOpen(t *testing.T, n int, more func(*rigging)) *rig {
	return newRig(t, n, func(s *rigging) {
		s.worker, s.states = strictly(true), []string{"half-open"}
		if more != nil {
			more(s)
		}
	})
}

// DECISIONS 55: trials are taken in dispatch; the filter leaves out a worker whose trials are all taken.
func TestDispatchGivesOutTheTrialsOfAHalfOpenBreaker(t *testing.T) {
	r := halfOpen(t, 2, nil)
	r.engines[0].SetFaults(engine.Fault{HangHeadMillis: -1})
	trial := chat()
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.ask(trial)
	}()
	require.Eventually(t, func() bool { return inFlightWith(r) }, patience, time.Millisecond)
	require.False(t, r.workers[0].Breaker().Admits())
	for range 4 {
		require.Equal(t, r.workers[1].URL(), r.ask(chat()).head.Get("X-Smg-Routed-Worker-Id"))
	}
	trial.leave()
	<-over
	require.True(t, r.workers[0].Breaker().Admits(), "a trial that says nothing is given back")
	require.Equal(t, workers.BreakerHalfOpen, r.workers[0].Breaker().State())

	r.engines[0].SetFaults()
	for range 2 {
		require.Equal(t, 200, r.ask(chat()).status)
	}
	require.Equal(t, workers.BreakerClosed, r.workers[0].Breaker().State(), "one success closes it")
}

// DECISIONS 55: the trial is given back, however the attempt ends.
func TestDispatchTakesEveryTrialBack(t *testing.T) {
	for _, stage := range []string{"in_flight", "forward"} {
		r := halfOpen(t, 1, nil)
		c := during(stage, false, boom)(t, r)
		require.Equal(t, 500, c.status)
		require.True(t, r.workers[0].Breaker().Admits(), "a panic before stage %s", stage)
		require.Equal(t, workers.BreakerHalfOpen, r.workers[0].Breaker().State())
	}
}

// DECISIONS 55: who loses the race gets a retryable 503, and is retried at once, without backoff.
func TestDispatchSendsWhoLostTheRaceBackAtOnce(t *testing.T) {
	r := halfOpen(t, 2, func(s *rigging) { s.retry.InitialBackoff, s.retry.MaxBackoff = time.Hour, time.Hour })
	var trial workers.Trial
	c := during("policy", true, func(x *pipeline.Exchange) {
		if x.Number == 1 { // another request is faster
			require.Equal(t, r.workers[0], x.Target())
			trial, _ = r.workers[0].Breaker().Take()
		}
	})(t, r)
	require.Equal(t, 200, c.status, "an hour was not waited")
	require.Equal(t, r.workers[1].URL(), c.head.Get("X-Smg-Routed-Worker-Id"))
	require.Equal(t, 1, r.count(t, "worker_retries_total{chat regular}"))
	require.Zero(t, r.total(t, "worker_retry_backoff_seconds"))
	r.workers[0].Breaker().Release(trial)
}

// DECISIONS 51: a worker that was cordoned after it was chosen gets no request; another one is chosen at once.
func TestDispatchGivesNothingToACordonedWorker(t *testing.T) {
	r := newRig(t, 2, func(s *rigging) { s.retry.InitialBackoff, s.retry.MaxBackoff = time.Hour, time.Hour })
	c := during("policy", true, func(x *pipeline.Exchange) {
		if x.Number == 1 {
			require.Equal(t, r.workers[0], x.Target())
			require.True(t, r.registry.Cordon(x.Target(), true))
		}
	})(t, r)
	require.Equal(t, 200, c.status, "an hour was not waited")
	require.Equal(t, r.workers[1].URL(), c.head.Get("X-Smg-Routed-Worker-Id"))
	require.Equal(t, []int{0, 1}, r.asked())
}

// DESIGN, "Explaining": a dry run takes no trial and counts no shed, but comes to the same end.
func TestDispatchBooksNothingInADryRun(t *testing.T) {
	w := newWorker(t, "http://127.0.0.1:1", "m1", strictly(true))
	put(t, w, "half-open")
	sheds := prometheus.NewCounter(prometheus.CounterOpts{Name: "sheds"})
	chosen := pipeline.StageFunc("policy", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}},
		func(x *pipeline.Exchange, next pipeline.Next) error {
			x.Legs.Add(w, workers.Regular)
			return next(x)
		})
	chain := assembled(t, chosen, Dispatch(time.Second, sheds), last(200, func(*pipeline.Exchange) {
		require.True(t, w.Breaker().Admits(), "the only trial is free")
	}))
	require.NoError(t, chain.Run(&pipeline.Exchange{Client: chat(), DryRun: true}))
	w.SetOverloaded(true)
	require.Error(t, chain.Run(&pipeline.Exchange{Client: chat(), DryRun: true}))
	require.Zero(t, testutil.ToFloat64(sheds))
}
