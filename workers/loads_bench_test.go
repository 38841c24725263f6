//go:build unix

package workers

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkLoadPoll is what polling costs: one operation is one poll of a real server, the server included.
func BenchmarkLoadPoll(b *testing.B) {
	body, err := os.ReadFile("testdata/vllm-metrics.txt")
	require.NoError(b, err)
	for name, runtime := range map[string]Runtime{"loads": SGLang, "vllm-page": VLLM} {
		b.Run(name, func(b *testing.B) {
			pages := map[string]page{"/v1/loads": ok(twoRanks)}
			if runtime == VLLM {
				pages = map[string]page{"/metrics": ok(string(body))}
			}
			e := startEngine(b, pages)
			s := source(e, runtime)
			s.poll(b.Context())
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				if got := s.poll(b.Context()); got.result != PollOK {
					b.Fatal(got.err)
				}
				e.forget()
			}
			perPoll := (cpuTime() - before) / time.Duration(b.N)
			b.ReportMetric(float64(perPoll), "cpu-ns/op")
			b.ReportMetric(10*perPoll.Seconds(), "cores/100-workers") // every 10 s: 10 polls a second
		})
	}
}

func (e *fakeEngine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = nil
}

// cpuTime is the CPU time that this process has taken so far.
func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
