package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/workers"
)

// Case C28, policies.md section 7, load-signals.md section 4.4: what was sent since the last poll counts, so that no worker gets all
// requests between two polls. The answers are held until all requests are in flight.
func TestC28NoHerdBetweenTwoPolls(t *testing.T) {
	const requests = 60
	most := int64(requests / 2)
	if raceEnabled {
		most = requests * 3 / 4 // between a choice and its count a goroutine may wait there, while others choose alike
	}
	tests := []struct {
		name    string
		waiting [3]string // what each worker reports; "" is nothing, late is nothing by one that joins the others when they are at work
	}{
		{"one reports less than the others", [3]string{"0", "1", "1"}},
		{"nobody reports", [3]string{}},
		{"one does not report", [3]string{"0", "1", ""}},
		{"one joins late without a report", [3]string{"0", "1", late}},
	}
	for _, policy := range []string{"least_load", "power_of_two", "cache_aware"} {
		for _, tt := range tests {
			t.Run(policy+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				held := requests
				early := tt.waiting[:]
				if tt.waiting[2] == late {
					early = early[:2]
				}
				g := startReporting(t, func(c *Config) { c.Policy = policy }, early...)
				if len(early) < len(tt.waiting) {
					g.hold(t, requests/10)
					held -= requests / 10
					g.join(t)
				}
				g.hold(t, held)
				for _, w := range g.gateway.registry.All() {
					require.Positive(t, w.InFlight(), "nobody is left out")
					require.LessOrEqual(t, w.InFlight(), most)
				}
			})
		}
	}
}

// Case C28: with every worker at the cap, or at least every one that could be chosen; DECISIONS 30: the answer tells the true reason.
func TestC28AllWorkersAtTheCap(t *testing.T) {
	tests := []struct {
		name string
		ill  bool // one of them
		told string
	}{
		{"all are at the cap", false, "All 3 workers are unavailable (at the waiting cap of 4: 3)"},
		{"two are, and one is ill", true, "All 3 workers are unavailable (at the waiting cap of 4: 2, unhealthy or draining: 1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := startReporting(t, func(c *Config) { c.Policy, c.MaxWaiting, c.RetryMaxRetries = "least_load", 4, 1 }, "4", "4", "4")
			capped := g.gateway.registry.All()
			if tt.ill {
				capped[0].SetStatus(workers.NotReady)
				capped = capped[1:]
			}
			for range 5 {
				got := g.post(t, chatPath, chat)
				require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
				require.Equal(t, "no_available_workers", got.Header.Get("X-Smg-Error-Code"))
				require.Equal(t, "1", got.Header.Get("Retry-After"))
				require.Contains(t, got.Body, `"message":"`+tt.told+`"`)
			}
			e := g.explained(t, "", chat)
			require.Equal(t, tt.told, e.Error.Message)
			for _, w := range capped {
				require.Contains(t, e.LeftOut, stages.ExplainedLeaving{ExplainedWorker: named(w), Stage: "policy", Reason: "at the waiting cap"})
			}
		})
	}
}

// late is the load of an engine that tells none.
const late = "late"

// join adds an engine to the fleet that holds every chat and tells no load.
func (g *running) join(t *testing.T) {
	t.Helper()
	e := silent(t)
	g.enrol(t, e.URL)
	g.until(t, func() bool {
		w := g.gateway.registry.ByURL(e.URL)
		return w != nil && w.Ready() && g.gateway.registry.Pool("m1", workers.Regular, workers.HTTP).Index(w) >= 0
	})
}

// silent starts an engine that holds every chat and tells no load.
func silent(t *testing.T) *engine.Running {
	e := engine.Start(t, engine.Config{})
	e.SetFaults(heldChat, engine.Fault{Path: "/v1/loads", Status: 500}, engine.Fault{Path: "/metrics", Status: 500})
	return e
}

// heldChat makes an engine hold every chat.
var heldChat = engine.Fault{Path: chatPath, HangHeadMillis: -1}

// startReporting runs a gateway in front of engines that hold every chat, each of which reports how many requests wait; it returns
// when all have been polled.
func startReporting(t *testing.T, configure func(*Config), waiting ...string) *running {
	t.Helper()
	var all []*engine.Running
	reporting := 0
	for _, n := range waiting {
		if n == "" {
			all = append(all, silent(t))
			continue
		}
		reporting++
		e := engine.Start(t, engine.Config{})
		e.SetFaults(heldChat, engine.Fault{Path: "/v1/loads", Body: engine.Text(`{"loads":[{"num_waiting_reqs":` + n + `,"token_usage":0.1}]}`)})
		all = append(all, e)
	}
	g := start(t, func(c *Config) {
		c.LoadMonitorInterval, c.DisableHealthCheck = 3600, true // no second poll
		configure(c)
	}, all...)
	g.until(t, func() bool {
		reports, silent := 0, 0
		for _, w := range g.gateway.registry.All() {
			if w.Report() != nil {
				reports++
			}
		}
		for _, e := range all {
			if len(asked(e)) > 0 && e.State().Paths["/metrics"] > 0 {
				silent++
			}
		}
		return g.gateway.registry.Pool("m1", workers.Regular, workers.HTTP).Len() == len(all) && reports == reporting && silent >= len(all)-reporting
	})
	return g
}

// hold has n chats in flight, each with a prompt of its own, until the test ends.
func (g *running) hold(t *testing.T, n int) {
	t.Helper()
	held := int(g.inFlight())
	g.holdEach(t, n, n, chatPath, func(i int) string {
		i += held
		return fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"%c%d"}]}`, 0x4e00+i, i)
	})
}

// holdEach has n requests in flight until the test ends, so many at once; the next ones are sent when those before are counted.
func (g *running) holdEach(t *testing.T, n, wave int, path string, body func(i int) string) {
	t.Helper()
	before := g.inFlight()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	for i := range n {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, strings.NewReader(body(i)))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		all.Go(func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
		if (i+1)%wave == 0 || i+1 == n {
			g.until(t, func() bool { return g.inFlight() == before+int64(i+1) })
		}
	}
}

// inFlight is how many requests all workers have.
func (g *running) inFlight() (sum int64) {
	for _, w := range g.gateway.registry.All() {
		sum += w.InFlight()
	}
	return sum
}
