package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// clumsy are engines that compute prompts, and fail in every way now and then.
func clumsy(t testing.TB, n int) (engines []*engine.Running) {
	model := &engine.ModelConfig{PrefillTPS: 2_000_000, ITL: time.Millisecond, BatchSlowdown: -1, MaxRunning: 8}
	one := 1
	for k := range n {
		e := engine.Start(t, engine.Config{Models: []string{"m"}, Model: model, Seed: uint64(k + 1), Keep: -1})
		e.SetFaults(
			engine.Fault{Probability: 0.06, Status: 503},
			engine.Fault{Probability: 0.04, Status: 500},
			engine.Fault{Probability: 0.04, Close: true},
			engine.Fault{Probability: 0.04, CutAfterEvents: &one, Reset: true},
			engine.Fault{Probability: 0.04, Status: 400},
		)
		engines = append(engines, e)
	}
	return engines
}

// mixed is one of many requests: of all kinds, with prompts that begin alike.
func mixed(r *rand.Rand) (path, body string) {
	prompt := strings.Repeat(fmt.Sprintf("prefix %d ", r.IntN(6)), 20*r.IntN(30)) + fmt.Sprint(r.Uint64())
	switch r.IntN(5) {
	case 0:
		return "/generate", fmt.Sprintf(`{"model":"m","text":%q,"sampling_params":{"max_new_tokens":3}}`, prompt)
	case 1:
		return "/generate", fmt.Sprintf(`{"model":"m","input_ids":[%d%s],"stream":true}`, r.IntN(4), strings.Repeat(",7", 16*r.IntN(60)))
	case 2:
		return "/v1/completions", fmt.Sprintf(`{"model":"m","prompt":%q,"stream":true,"max_tokens":5}`, prompt)
	default:
		return chatPath, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"stream":%t,"max_tokens":6}`, prompt, r.IntN(3) > 0)
	}
}

// hurried sends a request whose client may leave at any moment, and tells how it ended.
func (g *running) hurried(t *testing.T, r *rand.Rand) string {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	if r.IntN(5) == 0 {
		defer time.AfterFunc(time.Duration(r.IntN(12))*time.Millisecond, leave).Stop()
	}
	path, body := mixed(r)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return "none"
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "left"
	}
	defer resp.Body.Close()
	switch _, err = io.Copy(io.Discard, resp.Body); {
	case ctx.Err() != nil:
		return "left"
	case err != nil:
		return "broken"
	case resp.StatusCode == http.StatusOK:
		return "served"
	}
	return "failed"
}

// booked is what the policy has on all workers, tokens that wait and requests in flight, as /explain tells it.
func (g *running) booked(t testing.TB) (sum float64, rated int) {
	e := g.explained(t, "", hello)
	for _, s := range e.Scores {
		for _, part := range []string{"queued_tokens", "in_flight"} {
			require.NotNil(t, s.Parts[part])
			require.GreaterOrEqual(t, *s.Parts[part], 0.0, "%s of %s", part, s.URL) // so that the sum hides nothing
			sum += *s.Parts[part]
		}
	}
	return sum, len(e.Scores)
}

// However requests end, the books of least_work come out even.
func TestLeastWorkBooksAreZeroWhenAllIsQuiet(t *testing.T) {
	const requests, clients, fleetSize = 2000, 20, 8
	g := start(t, func(c *Config) {
		c.Policy, c.DisableBreaker, c.LogLevel = "least_work", true, "error"
	}, clumsy(t, fleetSize)...)
	g.serving(t, fleetSize)
	ended, done := map[string]int{}, make(chan string, requests)
	for client := range clients {
		go func() {
			r := rand.New(rand.NewPCG(uint64(client), 7))
			for range requests / clients {
				done <- g.hurried(t, r)
			}
		}()
	}
	busy := 0
	for k := range requests {
		ended[<-done]++
		if k%50 == 25 {
			if sum, _ := g.booked(t); sum > 0 {
				busy++
			}
		}
	}
	for _, how := range []string{"served", "failed", "broken", "left"} {
		require.Positive(t, ended[how], "no request ended so: %s", how)
	}
	require.Positive(t, busy, "the books were never seen with anything in them")
	sent := int64(0)
	for _, w := range g.gateway.registry.All() {
		require.Positive(t, w.Sent(), "%s got nothing", w.URL())
		sent += w.Sent()
	}
	require.Greater(t, sent, int64(requests), "none was tried again")

	g.quiet(t)
	g.until(t, func() bool {
		sum, rated := g.booked(t)
		return sum == 0 && rated == fleetSize
	})
}
