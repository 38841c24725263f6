package telemetry

import (
	"log/slog"
	"testing"
	"time"
)

func BenchmarkRouteMetrics(b *testing.B) {
	r := newTestMetrics().HTTP.Route("/v1/chat/completions")
	b.ReportAllocs()
	for b.Loop() {
		r.Requests("POST").Inc()
		r.Duration("POST").Observe(0.01)
		r.Response(200, "").Inc()
		r.Response(503, "no_available_workers").Inc()
	}
}

func BenchmarkRouterSeries(b *testing.B) {
	m := newTestMetrics()
	b.ReportAllocs()
	for b.Loop() {
		s := m.Router.Series(m.ModelLabel("meta-llama/Llama-3.1-8B-Instruct", true), EndpointChat)
		s.Requests(true).Inc()
	}
}

func BenchmarkWorkerSeries(b *testing.B) {
	m := newTestMetrics()
	w := m.Workers.Add("http://w:1")
	b.ReportAllocs()
	for b.Loop() {
		w.Requests("meta-llama/Llama-3.1-8B-Instruct").Inc()
		m.Workers.Selections(WorkerRegular, "http", "meta-llama/Llama-3.1-8B-Instruct", "cache_aware").Inc()
		m.Router.Upstream("http", 200, "").Inc()
		w.Successes.Inc()
	}
}

func BenchmarkInflight(b *testing.B) {
	in := newTestMetrics().Inflight
	now := time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		var n InflightNode
		for pb.Next() {
			in.Enter(&n, now)
			in.Leave(&n)
		}
	})
}

func BenchmarkMintRequestID(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		MintRequestID("/v1/chat/completions")
	}
}

// BenchmarkLog is a line that is not written, and one that is, in both forms.
func BenchmarkLog(b *testing.B) {
	for _, c := range []struct {
		name  string
		level slog.Level
		json  bool
	}{{"disabled", slog.LevelWarn, false}, {"text", slog.LevelInfo, false}, {"json", slog.LevelInfo, true}} {
		b.Run(c.name, func(b *testing.B) {
			l, err := NewLogger(LogOptions{Level: c.level, JSON: c.json, Stdout: discard{}, Env: func(string) string { return "" }})
			if err != nil {
				b.Fatal(err)
			}
			log, req, ctx := l.Target("smg::response"), chat(), b.Context()
			req.SetHead(200, time.Millisecond)
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(ctx, slog.LevelInfo, "finished processing request", req.Attr(), slog.String("worker", "http://w:1"), slog.Int("attempts", 1))
			}
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// The hot path must stay free of allocations whoever changes it; a benchmark alone would only show it.
func TestCountingARequestAllocatesNothing(t *testing.T) {
	m := newTestMetrics()
	r, w := m.HTTP.Route("/v1/chat/completions"), m.Workers.Add("http://w:1")
	var n InflightNode
	now := time.Now()
	allocs := testing.AllocsPerRun(1000, func() {
		m.Inflight.Enter(&n, now)
		r.Requests("POST").Inc()
		s := m.Router.Series(m.ModelLabel("m", true), EndpointChat)
		s.Requests(true).Inc()
		m.Workers.Selections(WorkerRegular, "http", "m", "random").Inc()
		w.Requests("m").Inc()
		m.Router.Upstream("http", 200, "").Inc()
		Exemplar{}.Observe(r.Duration("POST"), 0.01)
		s.Stream(time.Millisecond, time.Second, 100, Exemplar{})
		s.Tokens(10, 100)
		w.Successes.Inc()
		r.Response(200, "").Inc()
		m.Inflight.Leave(&n)
	})
	if allocs != 0 {
		t.Fatalf("counting a request allocates %v times", allocs)
	}
	if allocs := testing.AllocsPerRun(1000, func() { MintRequestID("/generate") }); allocs != 1 {
		t.Fatalf("an id allocates %v times, not only itself", allocs)
	}
}
