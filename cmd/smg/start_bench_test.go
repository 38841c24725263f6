package main

import (
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// BenchmarkStart is the time from the start of the built program to its first answer at /liveness, in front of an engine: what
// a restart costs, and what whoever tries smg waits for. The goal is 200 ms. Run it with -benchtime 10x.
func BenchmarkStart(b *testing.B) {
	binary := built(b)
	worker := engine.Start(b, engine.Config{})
	var took []time.Duration
	for b.Loop() {
		port := strconv.Itoa(unusedPort(b))
		gateway := exec.Command(binary, "launch", "--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1",
			"--prometheus-port", "0", "--log-level", "error", "--shutdown-grace-period-secs", "0", "--worker-urls", worker.URL)
		begin := time.Now()
		require.NoError(b, gateway.Start())
		for !isOK(b, "http://127.0.0.1:"+port+"/liveness") {
			time.Sleep(time.Millisecond)
		}
		took = append(took, time.Since(begin))
		b.StopTimer()
		require.NoError(b, gateway.Process.Signal(syscall.SIGTERM))
		require.NoError(b, gateway.Wait())
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
}
