package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md, section 9.4; DECISIONS 3: what an attempt says about its worker.
func TestBreakerRecordsWhatAWorkerDid(t *testing.T) {
	const good, bad, nothing = "good", "bad", "nothing"
	tests := []struct {
		name  string
		body  string
		fault engine.Fault
		want  string
	}{
		{"a good answer", small, engine.Fault{}, good},
		{"a redirect", small, engine.Fault{Status: 302}, good},
		{"the client's mistake", small, engine.Fault{Status: 400}, good},
		{"not found", small, engine.Fault{Status: 404}, good},
		{"unprocessable", small, engine.Fault{Status: 422}, good},
		{"not implemented", small, engine.Fault{Status: 501}, good},
		{"at its capacity", small, engine.Fault{Status: 429}, nothing},
		{"request timeout", small, engine.Fault{Status: 408}, bad},
		{"internal error", small, engine.Fault{Status: 500}, bad},
		{"bad gateway", small, engine.Fault{Status: 502}, bad},
		{"unavailable", small, engine.Fault{Status: 503}, bad},
		{"gateway timeout", small, engine.Fault{Status: 504}, bad},
		{"no answer", small, engine.Fault{Close: true}, bad},
		{"no HTTP", small, engine.Fault{Malformed: engine.GarbledHead}, bad},
		{"an answer that is cut", small, engine.Fault{CutAfterBytes: at(5)}, bad},
		{"a stream that ends well", stream, engine.Fault{}, good},
		{"a stream that is cut, whatever its head was", stream, engine.Fault{CutAfterEvents: at(2)}, bad},
		{"a stream that is malformed", stream, engine.Fault{Malformed: engine.GarbledChunk}, bad},
		{"a stream that is refused", stream, engine.Fault{Status: 503}, bad},
		{"a stream that is refused for its request", stream, engine.Fault{Status: 400}, good},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, attempts(1))
			r.workers[0].Breaker().Failure()
			r.workers[0].Breaker().Success()
			r.engines[0].SetFaults(tt.fault)
			r.ask(post(chatPath, tt.body))
			b := r.workers[0].Breaker()
			switch tt.want {
			case good:
				require.EqualValues(t, []int64{0, 2}, []int64{b.ConsecutiveFailures(), b.ConsecutiveSuccesses()})
			case bad:
				require.EqualValues(t, []int64{1, 0}, []int64{b.ConsecutiveFailures(), b.ConsecutiveSuccesses()})
			default:
				require.EqualValues(t, []int64{0, 1}, []int64{b.ConsecutiveFailures(), b.ConsecutiveSuccesses()})
			}
		})
	}
}

// workers' own lists of statuses; DECISIONS 3, "unless the worker's own status lists say otherwise".
func TestBreakerHeedsTheWorkersOwnStatusLists(t *testing.T) {
	r := newRig(t, 1, func(s *rigging) {
		s.retry.MaxAttempts = 1
		s.worker.Statuses = workers.StatusSettings{Retryable: []int{418}, Capacity: []int{503}}
	})
	b := r.workers[0].Breaker()
	for _, tt := range []struct {
		status              int
		failures, successes int64
	}{{418, 1, 0}, {503, 1, 0}, {500, 0, 1}} {
		r.engines[0].SetFaults(engine.Fault{Status: tt.status})
		require.Equal(t, tt.status, r.ask(chat()).status)
		require.Equal(t, tt.failures, b.ConsecutiveFailures(), "after a %d", tt.status)
		require.Equal(t, tt.successes, b.ConsecutiveSuccesses(), "after a %d", tt.status)
	}
}

// workers.md, section 9: "503 x 100 -> closed, no outcome metric" of a worker for which that is a capacity status.
func TestACapacityStatusIsNoOutcome(t *testing.T) {
	r := newRig(t, 1, func(s *rigging) {
		s.retry.MaxAttempts = 1
		s.worker.Statuses.Capacity = []int{429, 503}
	})
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	for range 100 {
		require.Equal(t, 503, r.ask(chat()).status)
	}
	require.Equal(t, []int{100}, r.asked())
	require.Equal(t, workers.BreakerClosed, r.workers[0].Breaker().State())
	require.Zero(t, r.count(t, "worker_cb_outcomes_total{failure w1}"))
	require.Zero(t, r.count(t, "worker_cb_outcomes_total{success w1}"))

	r.engines[0].SetFaults(engine.Fault{Status: 500})
	r.ask(chat())
	require.Equal(t, 1, r.count(t, "worker_cb_outcomes_total{failure w1}"), "what is counted is seen here")
}

// http-dataplane.md, section 9.4; telemetry.md, section 4.4.
func TestBreakerOpensAfterFailuresAndKeepsTheWorkerOut(t *testing.T) {
	r := newRig(t, 2, func(s *rigging) {
		s.worker = strictly(false)
		s.worker.Breaker.FailureThreshold = 3
	})
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	for range 10 {
		require.Equal(t, 200, r.ask(chat()).status, "the other one serves")
	}
	require.Equal(t, workers.BreakerOpen, r.workers[0].Breaker().State())
	require.EqualValues(t, 3, r.workers[0].Breaker().ConsecutiveFailures())
	require.Equal(t, []int{3, 10}, r.asked(), "from then on the first is not asked")
	require.Equal(t, 3, r.count(t, "worker_cb_outcomes_total{failure w1}"))
	require.Equal(t, 10, r.count(t, "worker_cb_outcomes_total{success w2}"))

	x := &pipeline.Exchange{Client: chat(), Explain: &pipeline.Explanation{}, DryRun: true}
	require.NoError(t, assembled(t, given(pipeline.Model), Candidates(r.registry), Breaker(), last(200, nil)).Run(x))
	require.Equal(t, []pipeline.LeftOut{{Worker: r.workers[0], Stage: "breaker", Reason: "open"}}, x.Explain.LeftOut)
}

// http-dataplane.md, section 9.4: a request charges one worker at most one failure; successes always count.
func TestBreakerChargesAWorkerOnceInARequest(t *testing.T) {
	r := newRig(t, 1, attempts(5))
	r.engines[0].SetFaults(engine.Fault{Status: 503, Count: 4})
	require.Equal(t, 200, r.ask(chat()).status)
	require.Equal(t, []int{5}, r.asked())
	require.Equal(t, 1, r.count(t, "worker_cb_outcomes_total{failure w1}"))
	require.Equal(t, 1, r.count(t, "worker_cb_outcomes_total{success w1}"))

	r.engines[0].SetFaults(engine.Fault{Status: 503, Count: 1})
	require.Equal(t, 200, r.ask(chat()).status)
	require.Equal(t, 2, r.count(t, "worker_cb_outcomes_total{failure w1}"), "another request charges anew")
}

// telemetry.md, section 4.4: outcomes are counted when the breaker is disabled, too.
func TestADisabledBreakerStillCounts(t *testing.T) {
	r := newRig(t, 1, func(s *rigging) {
		s.worker = strictly(false)
		s.worker.Breaker.Disabled, s.retry.MaxAttempts = true, 1
	})
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	for range 3 {
		require.Equal(t, 503, r.ask(chat()).status)
	}
	require.Equal(t, []int{3}, r.asked())
	require.Equal(t, 3, r.count(t, "worker_cb_outcomes_total{failure w1}"))
}

// DESIGN, "Explaining": a dry run records nothing.
func TestBreakerRecordsNothingInADryRun(t *testing.T) {
	w := newWorker(t, "http://127.0.0.1:1", "m1", strictly(false))
	put(t, w, "ready")
	registry := workers.NewRegistry(w)
	x := &pipeline.Exchange{Client: chat(), DryRun: true}
	require.NoError(t, assembled(t, given(pipeline.Model), Candidates(registry), Breaker(), last(200, func(x *pipeline.Exchange) {
		leg := x.Legs.Add(w, workers.Regular)
		leg.Outcome, leg.Status = pipeline.Broken, 502
	})).Run(x))
	require.Equal(t, workers.BreakerClosed, w.Breaker().State())
}

// workers.md, section 9, the check: with the settings of a gateway without flags, ten requests whose attempts all fail open a breaker.
func TestTenRequestsThatFailOpenABreaker(t *testing.T) {
	r := newRig(t, 1, attempts(5))
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	b := r.workers[0].Breaker()
	for n := range 10 {
		require.Equal(t, workers.BreakerClosed, b.State())
		require.EqualValues(t, n, b.ConsecutiveFailures())
		require.Equal(t, 503, r.ask(chat()).status)
	}
	require.Equal(t, workers.BreakerOpen, b.State())
	require.Equal(t, []int{9*5 + 1}, r.asked(), "the tenth opens it with its first attempt; before, each has had five")
}
