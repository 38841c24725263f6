package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Case C06, DECISIONS.md rows 1, 2 and 32: a request does not go back to the worker that failed it while another is left. Where a choice
// is pinned, the first retry may; what a retry picks stores no pin, so that every request tries the pinned worker anew.
func TestC06ARetryGoesElsewhere(t *testing.T) {
	tests := []struct {
		policy string
		most   int // attempts of one request at the worker that fails
	}{
		{"cache_aware", 1}, {"least_work", 1}, {"consistent_hashing", 1}, {"prefix_hash", 1}, {"manual", 2}, {"passthrough", 2},
	}
	faults := []struct {
		name string
		fail func(*engine.Running)
	}{
		{"answers 503", func(e *engine.Running) { e.SetFaults(engine.Fault{Status: 503}) }},
		{"is gone", func(e *engine.Running) { e.Down() }},
	}
	for _, tt := range tests {
		for _, fault := range faults {
			t.Run(tt.policy+", the worker "+fault.name, func(t *testing.T) {
				f := startFailing(t, tt.policy)
				f.settle(t)
				fault.fail(f.bad)
				f.served(t, tt.most)
			})
		}
	}
}

// Case C06, its stronger form, and DECISIONS.md row 2: a failed attempt leaves no cache credit, so that after the first success elsewhere
// a prompt goes straight to the worker that served it. A prompt that the failing worker has answered before stays known as its own as well.
func TestC06AFailedAttemptLeavesNoCredit(t *testing.T) {
	for _, policy := range []string{"cache_aware", "least_work"} {
		t.Run(policy, func(t *testing.T) {
			f := startFailing(t, policy)
			f.bad, f.good = f.engines[0], f.engines[1]
			f.bad.SetFaults(engine.Fault{Status: 503})
			bad := f.worker(t, f.bad.URL)
			for _, name := range []string{"one", "two", "three", "four", "five"} {
				r := f.ask(t, name, name)
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
				f.quiet(t)
				was := bad.Sent()
				for range 9 {
					f.ask(t, name, name)
				}
				require.Equal(t, was, bad.Sent(), "all nine go straight to the other worker")
			}
			require.Positive(t, bad.Sent(), "the failing worker was never tried")
		})
	}
}

// failing is a gateway in front of two workers: one that fails, to which a prompt and a key have been sent before, and another one.
type failing struct {
	*running
	engines   []*engine.Running
	bad, good *engine.Running
}

func startFailing(t *testing.T, policy string) *failing {
	t.Helper()
	w1, w2 := engine.Start(t, engine.Config{Name: "W1"}), engine.Start(t, engine.Config{Name: "W2"})
	g := start(t, func(c *Config) {
		c.Policy, c.RetryMaxRetries, c.HealthCheckInterval, c.CBFailureThreshold, c.LoadMonitorInterval = policy, 3, 3600, 1000, 3600
	}, w1, w2)
	g.serving(t, 2)
	return &failing{running: g, engines: []*engine.Running{w1, w2}}
}

// ask sends a prompt of about 2,000 characters, with the one key.
func (f *failing) ask(t *testing.T, name, id string) response {
	t.Helper()
	body := fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":%q}]}`, strings.Repeat(name+" prompt ", 2000/len(name+" prompt ")))
	return f.post(t, chatPath, body, "X-SMG-Routing-Key", "user-123", "X-Request-Id", id)
}

// settle finds out whose the prompt is.
func (f *failing) settle(t *testing.T) {
	t.Helper()
	for i := range 3 {
		r := f.ask(t, "the", fmt.Sprint("settle", i))
		require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
	}
	f.bad, f.good = f.engines[0], f.engines[1]
	if len(posts(f.bad)) == 0 {
		f.bad, f.good = f.good, f.bad
	}
	require.Len(t, posts(f.bad), 3, "the same worker each time")
	f.quiet(t)
}

// served sends ten more requests: each is served by the other worker, after at most so many attempts at the one that fails.
func (f *failing) served(t *testing.T, most int) {
	t.Helper()
	before := f.retries(t)
	bad := f.worker(t, f.bad.URL)
	sum := int64(0) // of attempts at the one that fails
	for i := range 10 {
		was := bad.Sent()
		r := f.ask(t, "the", fmt.Sprint("r", i))
		require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
		require.Equal(t, f.good.URL, r.Header.Get("X-Smg-Routed-Worker-Id"))
		tries := bad.Sent() - was
		require.LessOrEqual(t, tries, int64(most), "request %d", i)
		sum += tries
	}
	require.Positive(t, sum, "the first one is sent where the prompt is")
	require.EqualValues(t, sum, f.retries(t)-before, "each attempt that failed was followed by another one")
	for i, r := range posts(f.good) {
		require.Equal(t, []string{fmt.Sprint("r", i)}, r.Values("X-Request-Id"), "each is served once")
	}
}

// retries are the attempts after the first that were counted.
func (g *running) retries(t *testing.T) (n float64) {
	t.Helper()
	for _, m := range g.page(t)["smg_worker_retries_total"].GetMetric() {
		n += m.GetCounter().GetValue()
	}
	return n
}
