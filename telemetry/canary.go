package telemetry

import (
	"context"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	canarySleep = 10 * time.Millisecond
	canaryStall = 5 * time.Millisecond // lateness that counts as a stall
)

// canary sleeps and looks how late it wakes up: when it is late, so is every request.
type canary struct {
	delay  prometheus.Observer
	stalls prometheus.Counter
}

func newCanary(f *families) canary {
	f.gaugeFunc("smg_runtime_procs", "Operating system threads that may run Go code at once (GOMAXPROCS).",
		func() float64 { return float64(runtime.GOMAXPROCS(0)) })
	return canary{
		delay: f.histogramVec("smg_runtime_wake_delay_seconds",
			"How late a goroutine woke from a sleep of 10 ms.", lagBuckets).WithLabelValues(),
		stalls: f.counter("smg_runtime_stalls_total", "Wake-ups that were more than 5 ms late."),
	}
}

func (c canary) run(ctx context.Context) {
	timer := time.NewTimer(canarySleep)
	defer timer.Stop()
	for {
		slept := time.Now()
		timer.Reset(canarySleep)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			c.woke(time.Since(slept) - canarySleep)
		}
	}
}

func (c canary) woke(late time.Duration) {
	c.delay.Observe(max(0, late.Seconds()))
	if late > canaryStall {
		c.stalls.Inc()
	}
}
