package server

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// c29Limit is the size of a tree in characters, and c29Prompt that of a prompt: 256 fit.
const c29Limit, c29Prompt = 1 << 20, 1 << 12

// c29Number is how many there are of something of which the case has so many: a tenth where everything takes ten times as long.
func c29Number(n int) int {
	if testing.Short() || raceEnabled {
		return n / 10
	}
	return n
}

// treed is a gateway whose trees are small and cut back every second.
type treed struct {
	*running
	engines []*engine.Running
	rounds  uint64 // in which prompts were sent, each of its own
}

func startTreed(t *testing.T, configure func(*Config), models ...string) *treed {
	t.Helper()
	var all []*engine.Running
	for _, model := range models {
		all = append(all, engine.Start(t, engine.Config{Models: []string{model}, Keep: -1}))
	}
	g := start(t, func(c *Config) {
		c.Policy, c.MaxTreeSize, c.EvictionInterval, c.DrainSettle, c.LogLevel = "cache_aware", c29Limit, 1, 0, "error"
		if configure != nil {
			configure(c)
		}
	}, all...)
	g.serving(t, len(models))
	return &treed{running: g, engines: all}
}

// prompt is random text of so many characters.
func prompt(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz0123456789 "[r.IntN(37)]
	}
	return string(b)
}

// sendAll sends a chat for each of n prompts, eight at a time. Each is served.
func (g *treed) sendAll(t *testing.T, n int, next func(r *rand.Rand) string) {
	t.Helper()
	g.rounds++
	var clients sync.WaitGroup
	for k := range uint64(8) {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(k, g.rounds))
			for range n / 8 {
				got := ask(t, http.MethodPost, g.URL+chatPath, fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":%q}]}`, next(r)))
				if got.StatusCode != http.StatusOK {
					t.Errorf("status %d: %s", got.StatusCode, got.Body)
					return
				}
			}
		})
	}
	clients.Wait()
}

// gauges are the values of a gauge that models have, by the model.
func (g *treed) gauges(t *testing.T, name string) map[string]float64 {
	t.Helper()
	found := map[string]float64{}
	for _, m := range g.page(t)[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "model" {
				found[l.GetValue()] += m.GetGauge().GetValue()
			}
		}
	}
	return found
}

// heapCutBack is what the heap holds when the tree has been cut back. Another short prompt each time tells that a round has passed.
func (g *treed) heapCutBack(t *testing.T) int64 {
	t.Helper()
	chars := func() float64 { return g.gauges(t, "smg_cache_tree_chars")["m1"] }
	before := chars()
	g.until(t, func() bool {
		g.sendAll(t, 8, func(r *rand.Rand) string { return prompt(r, 100) })
		now := chars()
		return now != before && now > c29Limit/2 && now <= c29Limit*11/10
	})
	return heap()
}

// remove deletes a worker, and waits until it is gone.
func (g *treed) remove(t *testing.T, url string) {
	t.Helper()
	w := g.worker(t, url)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+w.ID().String(), "").StatusCode)
	g.until(t, func() bool { return g.gateway.registry.ByURL(url) == nil })
}

// Case C29 (prefix tree memory), parts 1 and 3, cache-aware.md section 2.4: however many prompts come, alike in part or not, a tree is cut
// back to its limit, and memory reaches a plateau.
func TestC29ATreeIsBounded(t *testing.T) {
	tests := []struct {
		name string
		next func(r *rand.Rand, earlier []string) string
	}{
		{"different prompts", func(r *rand.Rand, _ []string) string { return prompt(r, c29Prompt) }},
		{"prompts that share a part of one before", func(r *rand.Rand, earlier []string) string {
			return earlier[r.IntN(len(earlier))][:10+r.IntN(c29Prompt-10)] + prompt(r, 400)
		}},
	}
	half := 10_000
	if testing.Short() || raceEnabled {
		half = 4_000 // fill a tree
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := startTreed(t, nil, "m1", "m1")
			r := rand.New(rand.NewPCG(1, 2))
			earlier := make([]string, 50)
			for i := range earlier {
				earlier[i] = prompt(r, c29Prompt)
			}
			next := func(r *rand.Rand) string { return tt.next(r, earlier) }
			g.sendAll(t, half, next)
			plateau := g.heapCutBack(t)
			g.sendAll(t, half, next)
			require.Less(t, g.heapCutBack(t), plateau*11/10)
			require.Less(t, g.page(t)["smg_cache_index_bytes"].GetMetric()[0].GetGauge().GetValue(), float64(8*c29Limit))
		})
	}
}

// Case C29, part 2: a prompt that comes again and again counts once.
func TestC29ARepeatedPromptCountsOnce(t *testing.T) {
	t.Parallel() // it waits
	g := startTreed(t, nil, "m1", "m1")
	one := prompt(rand.New(rand.NewPCG(3, 4)), c29Prompt)
	next := func(*rand.Rand) string { return one }
	require.Equal(t, http.StatusOK, g.post(t, chatPath, fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":%q}]}`, one)).StatusCode)
	g.sendAll(t, c29Number(20_000), next)
	g.until(t, func() bool { return g.gauges(t, "smg_cache_tree_chars")["m1"] == c29Prompt })
	g.sendAll(t, 80, func(r *rand.Rand) string { return prompt(r, 100) })
	g.until(t, func() bool { // the sum of all that there is; a few characters are shared
		chars := g.gauges(t, "smg_cache_tree_chars")["m1"]
		return chars > c29Prompt+80*90 && chars <= c29Prompt+80*100
	})
}

// Case C29, parts 4 and 5, cache-aware.md section 2.5: of a worker that is removed no entry is left, and nobody chooses it; not after
// many cycles either.
func TestC29NothingOfARemovedWorkerIsLeft(t *testing.T) {
	t.Parallel() // it waits
	cycles := c29Number(200)
	g := startTreed(t, nil, "m1", "m1")
	next := func(r *rand.Rand) string { return prompt(r, 200) }
	tenants := func() float64 { return g.gauges(t, "smg_cache_tree_tenants")["m1"] }
	g.sendAll(t, 160, next)
	g.until(t, func() bool { return tenants() == 2 })
	w2 := g.engines[1].URL
	var gone []*workers.Worker
	for k := range cycles {
		if k > 0 {
			g.enrol(t, w2)
			g.serving(t, 2)
			g.sendAll(t, 48, next)
		}
		gone = append(gone, g.worker(t, w2))
		require.Positive(t, gone[k].Sent(), "cycle %d", k)
		g.remove(t, w2)
	}
	g.until(t, func() bool { return tenants() == 1 })
	served := g.engines[1].State().Paths[chatPath]
	g.sendAll(t, c29Number(20_000), func(r *rand.Rand) string { return prompt(r, c29Prompt) })
	require.Equal(t, served, g.engines[1].State().Paths[chatPath], "it is asked no more")
	g.until(t, func() bool {
		chars := g.gauges(t, "smg_cache_tree_chars")["m1"]
		return tenants() == 1 && chars > 0 && chars <= c29Limit*11/10
	})
	for _, w := range gone {
		require.Zero(t, w.InFlight())
	}
}

// Case C29, part 6: where models come and go, there are trees for those that somebody serves.
func TestC29NoTreeForAModelThatNobodyServes(t *testing.T) {
	t.Parallel() // it waits
	g := startTreed(t, func(c *Config) { c.EnableIGW = true }, "m1", "m2", "m3")
	for i := range 2 * c29Number(500) { // each other one is of a model of its own
		model, status := fmt.Sprint("m", 1+i%3), http.StatusOK
		if i%2 == 1 {
			model, status = fmt.Sprint("no-such-", i), http.StatusNotFound
		}
		r := g.post(t, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"prompt %d"}]}`, model, i))
		require.Equal(t, status, r.StatusCode, r.Body)
	}
	g.until(t, func() bool { return len(g.gauges(t, "smg_cache_tree_chars")) == 3 })
	for _, name := range []string{"smg_cache_tree_chars", "smg_cache_tree_tenants"} {
		for model := range g.gauges(t, name) {
			require.Contains(t, []string{"m1", "m2", "m3"}, model)
		}
	}
	g.remove(t, g.engines[2].URL)
	g.until(t, func() bool { return len(g.gauges(t, "smg_cache_tree_chars")) == 2 })
}
