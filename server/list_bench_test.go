package server

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// BenchmarkListWorkers is GET /workers over HTTP, with workers as they are after registration. An operator's page that is open
// in a few browsers must not be felt by requests: 1,000 workers are to take no more than 20 ms.
func BenchmarkListWorkers(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := start(b, nil)
			for i := range n {
				g.registerDescribed(b, i)
			}
			size := 0
			var took []time.Duration
			b.ReportAllocs()
			cpu := cpuTime(b) // on a busy machine the one figure that means something; client included
			for b.Loop() {
				began := time.Now()
				got := g.get(b, "/workers")
				took = append(took, time.Since(began))
				require.Equal(b, http.StatusOK, got.StatusCode)
				size = len(got.Body)
			}
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/1000/float64(len(took)), "cpu-ms/op")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(size), "page-bytes")
		})
	}
}

// registerDescribed puts a worker into the registry that has what an engine tells of itself.
func (g *running) registerDescribed(t testing.TB, i int) {
	t.Helper()
	spec := workers.NewSpec(fmt.Sprintf("http://10.%d.%d.%d:8000", i>>16, i>>8&255, i&255))
	spec.Labels = map[string]string{
		"served_model_name": "m1", "model_path": "/models/m1", "tokenizer_path": "/models/m1", "version": "0.5.4", "tp_size": "1", "dp_size": "1",
		"architectures": `["LlamaForCausalLM"]`, "model_type": "llama", "is_generation": "true", "max_model_len": "32768",
	}
	w, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	w.SetStatus(workers.Ready)
	require.NoError(t, g.gateway.registry.Add(w))
}
