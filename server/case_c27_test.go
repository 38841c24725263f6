package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// c27 is how many requests a part of the case sends.
const c27 = 64

// startSpread runs cache_aware, with the thresholds of case C27, in front of engines that have been polled once.
func startSpread(t *testing.T, fault engine.Fault, n int) (*running, []*engine.Running) {
	t.Helper()
	var all []*engine.Running
	for i := range n {
		e := engine.Start(t, engine.Config{Name: fmt.Sprint("W", i+1), Keep: -1})
		e.SetFaults(fault)
		all = append(all, e)
	}
	g := start(t, func(c *Config) {
		c.Policy, c.BalanceAbs, c.BalanceRel, c.LoadMonitorInterval = "cache_aware", 4, 1.5, 3600
	}, all...)
	g.serving(t, n)
	g.reported(t, n)
	return g, all
}

// sentTo are how many requests each worker got, in the order of registration.
func (g *running) sentTo() (counts []int64) {
	for _, w := range g.gateway.registry.All() {
		counts = append(counts, w.Sent())
	}
	return counts
}

// active is the gauge of requests in flight, of all workers.
func (g *running) active(t *testing.T) (sum float64) {
	t.Helper()
	for _, m := range g.page(t)["smg_worker_requests_active"].GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	return sum
}

// Case C27 (everything on one worker), part 1, cache-aware.md section 3: 64 requests in flight that share a prefix of 2,000 characters are
// served by all workers, on every route, and none holds clearly more than 1.5 times the mean. Their answers are held, so that what is
// counted as in flight on a route shows. gRPC workers are a later part.
func TestC27OnePrefixIsServedByAll(t *testing.T) {
	const wave = 4 // at once: between a choice and its count a goroutine may wait, while others choose alike
	prefix := strings.Repeat("shared prefix ", 143)
	for path, form := range map[string]string{
		chatPath:          `{"model":"m1","messages":[{"role":"user","content":%q}]%s}`,
		"/v1/completions": `{"model":"m1","prompt":%q%s}`,
		"/generate":       `{"text":%q%s}`,
		"/v1/embeddings":  `{"model":"m1","input":%q%s}`,
		"/v1/responses":   `{"model":"m1","input":%q%s}`,
		"/v1/messages":    `{"model":"m1","max_tokens":9,"messages":[{"role":"user","content":%q}]%s}`,
	} {
		for _, stream := range []string{"", `,"stream":true`} {
			if path == "/v1/embeddings" && stream != "" {
				continue
			}
			t.Run(path+stream, func(t *testing.T) {
				t.Parallel()
				g, _ := startSpread(t, engine.Fault{HangHeadMillis: -1}, 4)
				g.holdEach(t, c27, wave, path, func(i int) string { return fmt.Sprintf(form, fmt.Sprint(prefix, "q", i), stream) })
				for _, w := range g.gateway.registry.All() {
					require.Positive(t, w.InFlight(), "nobody is left out: %v", g.sentTo())
					require.LessOrEqual(t, w.InFlight(), int64(24+wave), "%v", g.sentTo())
				}
				require.EqualValues(t, c27, g.active(t))
			})
		}
	}
}

// Case C27, parts 2 and 3: prompts that share nothing are spread, at once and one after another; no worker gets more than 40 %.
func TestC27PromptsThatShareNothingAreSpread(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		g, _ := startSpread(t, engine.Fault{HangHeadMillis: -1}, 4)
		g.hold(t, c27)
		for _, n := range g.sentTo() {
			require.LessOrEqual(t, n, int64(c27*4/10))
		}
	})
	t.Run("one after another", func(t *testing.T) {
		g, _ := startSpread(t, engine.Fault{}, 4)
		for i := range c27 {
			require.Equal(t, http.StatusOK, g.post(t, chatPath, unlike(i)).StatusCode)
		}
		for _, n := range g.sentTo() {
			require.LessOrEqual(t, n, int64(c27*4/10))
		}
	})
}

// unlike is a chat whose prompt begins like no other.
func unlike(i int) string {
	return fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"%c%s"}]}`, 0x4e00+i, strings.Repeat(fmt.Sprint(" word ", i), 20))
}

// Case C27, part 4: a prompt that nobody knows does not go to a worker because it knows little. The first one has had six long requests,
// which never end; each of the others a large prompt twice, which is done.
func TestC27ABusyWorkerGetsTheFewestMisses(t *testing.T) {
	g, all := startSpread(t, engine.Fault{HangHeadMillis: -1}, 1)
	g.holdEach(t, 6, 6, chatPath, func(i int) string {
		return fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":%q}]}`, strings.Repeat(fmt.Sprint(i, " never ends "), 100))
	})
	all[0].SetFaults() // of those that come now
	for range 3 {
		e := engine.Start(t, engine.Config{Keep: -1})
		g.enrol(t, e.URL)
	}
	g.serving(t, 4)
	g.reported(t, 4)
	for i := range 6 {
		large := fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":%q}]}`, strings.Repeat(fmt.Sprint(i/2, " is a large prompt "), 300))
		require.Equal(t, http.StatusOK, g.post(t, chatPath, large).StatusCode)
	}
	require.Equal(t, []int64{6, 2, 2, 2}, g.sentTo())
	for i := range 40 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, unlike(i+100)).StatusCode)
	}
	got := g.sentTo()
	for i := 1; i < 4; i++ {
		require.Less(t, got[0]-6, got[i]-2, "%v", got)
	}
}
