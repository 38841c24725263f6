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
		waiting [3]string // what each worker reports; "" is nothing
	}{
		{"one reports less than the others", [3]string{"0", "1", "1"}},
		{"nobody reports", [3]string{}},
		{"one does not report", [3]string{"0", "1", ""}},
	}
	for _, policy := range []string{"least_load", "power_of_two", "cache_aware"} {
		for _, tt := range tests {
			t.Run(policy+", "+tt.name, func(t *testing.T) {
				t.Parallel()
				g := startReporting(t, func(c *Config) { c.Policy = policy }, tt.waiting[:]...)
				g.hold(t, requests)
				for _, w := range g.gateway.registry.All() {
					require.Positive(t, w.InFlight(), "nobody is left out")
					require.LessOrEqual(t, w.InFlight(), most)
				}
			})
		}
	}
}

// Case C28: with every worker at the cap
func TestC28AllWorkersAtTheCap(t *testing.T) {
	g := startReporting(t, func(c *Config) { c.Policy, c.MaxWaiting, c.RetryMaxRetries = "least_load", 4, 1 }, "4", "4", "4")
	for range 5 {
		got := g.post(t, chatPath, chat)
		require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
		require.Equal(t, "no_available_workers", got.Header.Get("X-Smg-Error-Code"))
	}
}

// startReporting runs a gateway in front of engines that hold every chat, each of which reports how many requests wait; it returns
// when all have been polled.
func startReporting(t *testing.T, configure func(*Config), waiting ...string) *running {
	t.Helper()
	held := engine.Fault{Path: chatPath, HangHeadMillis: -1}
	var all []*engine.Running
	reporting := 0
	for _, n := range waiting {
		e := engine.Start(t, engine.Config{})
		if n == "" {
			e.SetFaults(held, engine.Fault{Path: "/v1/loads", Status: 500}, engine.Fault{Path: "/metrics", Status: 500})
		} else {
			reporting++
			e.SetFaults(held, engine.Fault{Path: "/v1/loads", Body: engine.Text(`{"loads":[{"num_waiting_reqs":` + n + `,"token_usage":0.1}]}`)})
		}
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
	g.holdEach(t, n, n, chatPath, func(i int) string {
		return fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"%c%d"}]}`, 0x4e00+i, i)
	})
}

// holdEach has n requests in flight until the test ends, so many at once; the next ones are sent when those before are counted.
func (g *running) holdEach(t *testing.T, n, wave int, path string, body func(i int) string) {
	t.Helper()
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
			g.until(t, func() bool {
				var sum int64
				for _, w := range g.gateway.registry.All() {
					sum += w.InFlight()
				}
				return sum == int64(i+1)
			})
		}
	}
}
