package server

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// BenchmarkTracing takes 1 KiB chat requests through the chain without tracing, with a tracing that records nothing, and with one
// that sends every span to a collector. It reports the CPU time of this process for a request, export included; the worker's part
// is the same in all three.
func BenchmarkTracing(b *testing.B) {
	ratio := func(r float64) *float64 { return &r }
	for _, tt := range []struct {
		name  string
		ratio *float64
	}{{"off", nil}, {"unsampled", ratio(0)}, {"on", ratio(1)}} {
		b.Run(tt.name, func(b *testing.B) {
			address := ""
			if tt.ratio != nil {
				address = startCollectorProcess(b)
			}
			e := engine.Start(b, engine.Config{Keep: -1})
			g := start(b, func(c *Config) {
				c.LogLevel = "error"
				c.EnableTrace, c.OTLPTracesEndpoint, c.TraceSampleRatio = tt.ratio != nil, address, tt.ratio
			}, e)
			c := &memoryClient{body: chatOf(1 << 10)}
			chain := g.gateway.runtime.Chain("POST " + chatPath)
			b.ReportAllocs()
			before := cpuTime(b)
			for b.Loop() {
				c.rewind()
				if err := chain.Serve(c); err != nil || c.status != 200 {
					b.Fatal(c.status, err)
				}
			}
			b.StopTimer()
			require.NoError(b, g.gateway.tracing.Close(context.Background()))
			b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
