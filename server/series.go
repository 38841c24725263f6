package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// series gives every registered worker its counters, takes them away when it leaves, and logs what happens to it in between; that
// it comes and goes, the enroller logs.
type series struct {
	metrics *telemetry.WorkerMetrics
	log     *slog.Logger
}

var _ workers.Listener = (*series)(nil)

func (s *series) WorkerAdded(w *workers.Worker) {
	w.AttachSeries(s.metrics.Add(w.URL()))
	w.OnBreaker(s.breakerMoved)
}

func (s *series) WorkerReplaced(was, now *workers.Worker) {
	now.AttachSeries(was.Series())
	now.OnBreaker(s.breakerMoved)
}

func (s *series) WorkerRemoved(w *workers.Worker) {
	s.metrics.Forget(w.Series())
}

func (s *series) WorkerStatus(w *workers.Worker, from, to workers.Status) {
	s.log.Info("worker changed its state", "worker", w.URL(), "from", from.String(), "to", to.String())
}

// breakerMoved counts and logs: an opening breaker is what an operator wants to hear of.
func (s *series) breakerMoved(w *workers.Worker, from, to workers.BreakerState) {
	if own := w.Series(); own != nil {
		own.Transition(int(from), int(to))
	}
	level := slog.LevelInfo
	if to == workers.BreakerOpen {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "circuit breaker moved", "worker", w.URL(), "from", from.String(), "to", to.String())
}

// state reads what the gateway knows of itself at a scrape.
func (g *gateway) state() telemetry.GatewayState {
	status, _ := g.readiness()
	s := telemetry.GatewayState{Ready: status == http.StatusOK, Draining: g.draining.Load()}
	s.JobsWaiting, s.JobsWorking = g.enroller.Jobs().Depth()
	return s
}

// samples reads the workers' states at a scrape.
func samples(r *workers.Registry, policies *policy.Set) telemetry.WorkerSource {
	return func(yield func(telemetry.WorkerSample) bool) {
		for _, w := range r.All() {
			s := sample(w)
			if wait, known := policies.ExpectedWait(w); known {
				s.ExpectedWait = &wait
			}
			if !yield(s) {
				return
			}
		}
	}
}

func sample(w *workers.Worker) telemetry.WorkerSample {
	return telemetry.WorkerSample{
		URL: w.URL(), Type: w.Type().String(), ConnectionMode: w.Mode().String(), Model: w.Model(),
		Status: w.Status().String(), Runtime: w.Spec().RuntimeType.String(),
		InFlight: w.InFlight(), Ready: w.Ready(), Overloaded: w.Overloaded(), Breaker: int(w.Breaker().State()),
		ConsecutiveFailures: w.Breaker().ConsecutiveFailures(), ConsecutiveSuccesses: w.Breaker().ConsecutiveSuccesses(),
		KeysTracked: true, RoutingKeys: w.ActiveKeys(),
		Engine: engineSample(w),
		HTTP2:  w.Spec().HTTPPool != nil && w.Settings().HTTPPool.HTTP2,
	}
}
