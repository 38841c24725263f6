//go:build unix

package workers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// manyEngines is one server that is as many engines as one likes, each at a prefix of its own.
func manyEngines(b *testing.B) *httptest.Server {
	pages := sglang("m")
	pages["/v1/loads"] = ok(`{"timestamp":"now","loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":0}]}`)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, known := pages[r.URL.Path[strings.IndexByte(r.URL.Path[1:], '/')+1:]]
		if !known {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(p.body))
	}))
	b.Cleanup(srv.Close)
	return srv
}

func fleetAt(url string, n int) (specs []Spec) {
	for i := range n {
		specs = append(specs, NewSpec(fmt.Sprintf("%s/w%d", url, i)))
	}
	return specs
}

// BenchmarkRegistering is the whole registration of engines that are up, theirs included: one process plays both sides.
func BenchmarkRegistering(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			specs := fleetAt(manyEngines(b).URL, n)
			for b.Loop() {
				e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
				require.NoError(b, e.Startup(specs).Run(b.Context(), func() {}))
				require.Equal(b, n, e.registry.Len())
				e.Close()
			}
		})
	}
}

// BenchmarkIdle is what a fleet costs that nobody asks anything: health checks and load polls at their default intervals, for 20 s, with
// the engines' part, which is about half, since one process plays both sides. Run it with -benchtime=1x.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := NewRegistry()
			for _, spec := range fleetAt(manyEngines(b).URL, n) {
				spec.RuntimeType = SGLang
				_ = r.Add(made(b, spec))
			}
			ctx, cancel := context.WithCancel(b.Context())
			health, loads := NewHealthLoop(r, nil), NewLoadMonitor(r, LoadSettings{Interval: 10 * time.Second}, nil)
			over := make(chan error, 2)
			for _, run := range []func(context.Context, func()) error{health.Run, loads.Run} {
				go func() { over <- run(ctx, func() {}) }()
			}
			time.Sleep(10 * time.Second) // each is asked once as soon as it is there
			for b.Loop() {
				before := cpuTime()
				begun := time.Now()
				time.Sleep(20 * time.Second)
				b.ReportMetric((cpuTime()-before).Seconds()/time.Since(begun).Seconds(), "cores")
			}
			cancel()
			<-over
			<-over
		})
	}
}
