package telemetry

import "github.com/prometheus/client_golang/prometheus"

// OnShed asks for a call at each request that the overload protection turns away. It comes on the request's way, from many at once,
// and must be quick. It is asked for before the first request comes.
func (w *WorkerMetrics) OnShed(f func(ShedStage)) {
	for i := range w.sheds {
		w.sheds[i] = toldCounter{w.sheds[i], func() { f(ShedStage(i)) }}
	}
}

// String is the label value.
func (s ShedStage) String() string { return shedStages[s] }

// toldCounter is a counter that tells when it counts one more.
type toldCounter struct {
	prometheus.Counter
	told func()
}

// Inc is part of [prometheus.Counter].
func (c toldCounter) Inc() {
	c.Counter.Inc()
	c.told()
}
