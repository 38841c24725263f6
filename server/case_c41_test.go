package server

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/stages/policy"
)

// c41For is how long each policy is under change, twelve times and some at once, and how long a client pauses at most between two requests.
// The race detector sees what is not ordered however seldom it happens; without it the same goes through more in a second.
func c41For() (d, pause time.Duration) {
	if !raceEnabled {
		return time.Second, 100 * time.Millisecond
	}
	return 5 * time.Second, 500 * time.Millisecond
}

// Case C41 (concurrent use of routing state): under every policy, and under sessions, many clients go on while the fleet changes and
// operators look at it. Nothing races, panics or hangs; each request is served or gets a JSON 503; in the end the fleet is what the last
// calls asked for. Prefill and decode legs are a later part.
func TestC41PoliciesUnderChange(t *testing.T) {
	t.Run("all", func(t *testing.T) { // returns when the parallel ones are through
		for i, name := range append(policy.Names(), "round_robin") {
			sticky := i == len(policy.Names())
			t.Run(fmt.Sprintf("%s, sticky %t", name, sticky), func(t *testing.T) {
				t.Parallel()
				d, pause := c41For()
				startChanging(t, name, sticky).bear(t, 64, d, pause)
			})
		}
	})
	require.Eventually(t, func() bool { return !forwarding() }, patience, 5*time.Millisecond, "a goroutine is still at work for an attempt")
}

// unpatched is the priority of a worker that nobody has given one.
const unpatched = 50

// changing is a gateway whose fleet changes all the time.
type changing struct {
	*running
	engines []*engine.Running
	wanted  map[string]int // by URL of those that should be there: the priority; what the last call that was accepted has asked for
	client  *http.Client
	over    atomic.Bool
	served  atomic.Int64
	wrong   atomic.Pointer[string] // what should not have been answered
}

func startChanging(t *testing.T, name string, sticky bool) *changing {
	t.Helper()
	c := &changing{wanted: map[string]int{}, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}}
	for range 8 {
		c.engines = append(c.engines, engine.Start(t, engine.Config{Keep: -1}))
	}
	c.running = start(t, func(cfg *Config) {
		cfg.Policy, cfg.RoutingKeyOverride, cfg.LogLevel = name, sticky, "error"
		cfg.EvictionInterval, cfg.MaxIdle, cfg.MaxTreeSize, cfg.LoadMonitorInterval, cfg.DrainSettle = 1, 1, 1<<16, 1, 0
		cfg.HealthCheckInterval, cfg.HealthFailureThreshold, cfg.HealthSuccessThreshold, cfg.RetryMaxRetries = 1, 1, 1, 2
	}, c.engines[:4]...)
	t.Cleanup(c.client.CloseIdleConnections)
	c.serving(t, 4)
	for _, e := range c.engines[:4] {
		c.wanted[e.URL] = unpatched
	}
	return c
}

// bear has clients send requests while the fleet changes.
func (c *changing) bear(t *testing.T, clients int, d, pause time.Duration) {
	t.Helper()
	stop := time.After(d)
	var all sync.WaitGroup
	defer all.Wait()
	defer c.over.Store(true) // also if a change fails the test
	for k := range clients {
		all.Go(func() { c.requests(rand.New(rand.NewPCG(uint64(k), 41)), pause) })
	}
	c.changes(t, rand.New(rand.NewPCG(41, 41)), stop)
	c.over.Store(true)
	all.Wait()
	c.settled(t)
}

// requests sends one request after another until it is over: prompts with a beginning that others have too, and keys by chance. It pauses
// between them, so that the machine is not too busy for the fleet to change.
func (c *changing) requests(r *rand.Rand, pause time.Duration) {
	for ; !c.over.Load(); time.Sleep(time.Duration(r.Int64N(int64(pause)))) {
		head := strings.Repeat(fmt.Sprintf("prefix %d ", r.IntN(200)), 20)
		path, body := chatPath, fmt.Sprintf(`{"model":"m1","messages":[{"role":"user","content":"%s%x"}],"stream":%t}`, head, r.Uint32(), r.IntN(2) == 0)
		if r.IntN(4) == 0 {
			path, body = "/generate", fmt.Sprintf(`{"input_ids":[%s,%d]}`, ids(r.IntN(200)*1000, 64, 1), r.Uint32())
		}
		req, err := http.NewRequest(http.MethodPost, c.URL+path, strings.NewReader(body))
		if err != nil {
			c.complain("%v", err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-SMG-Routing-Key", fmt.Sprint("key", r.IntN(500)))
		c.send(req)
	}
}

func (c *changing) send(req *http.Request) {
	resp, err := c.client.Do(req)
	if err != nil {
		c.complain("%v", err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		c.complain("status %d, then %v", resp.StatusCode, err)
	case resp.StatusCode == http.StatusOK:
		c.served.Add(1)
	case resp.StatusCode != http.StatusServiceUnavailable || !json.Valid(body):
		c.complain("status %d: %s", resp.StatusCode, body)
	}
}

func (c *changing) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.wrong.CompareAndSwap(nil, &text)
}

// changes changes the fleet and looks at it, twenty times a second, until it is told to stop.
func (c *changing) changes(t *testing.T, r *rand.Rand, stop <-chan time.Time) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		c.change(t, c.engines[r.IntN(len(c.engines))])
		c.patch(t, c.engines[r.IntN(len(c.engines))], r.IntN(100))
		ill := c.engines[r.IntN(len(c.engines))]
		ill.SetFaults(engine.Fault{Path: "/health", Status: http.StatusServiceUnavailable})
		c.engines[r.IntN(len(c.engines))].SetFaults()
		for _, path := range []string{"/workers", "/get_loads"} {
			require.Equal(t, http.StatusOK, c.get(t, path).StatusCode, path)
		}
		c.page(t)
		c.post(t, "/explain", chat) // 200, or the 503 that the request would get
	}
}

// change removes a worker that is registered, and adds one that is not.
func (c *changing) change(t *testing.T, e *engine.Running) {
	t.Helper()
	if w := c.gateway.registry.ByURL(e.URL); w != nil {
		if taken(t, c.do(t, http.MethodDelete, "/workers/"+w.ID().String(), "")) {
			delete(c.wanted, e.URL)
		}
		return
	}
	if taken(t, c.post(t, "/workers", fmt.Sprintf(`{"url":%q}`, e.URL))) {
		c.wanted[e.URL] = unpatched
	}
}

// patch gives a worker that is registered another priority. One that shall go may still be there: it goes all the same.
func (c *changing) patch(t *testing.T, e *engine.Running, priority int) {
	t.Helper()
	w := c.gateway.registry.ByURL(e.URL)
	if w == nil {
		return
	}
	body := fmt.Sprintf(`{"priority":%d}`, priority)
	got := c.do(t, http.MethodPatch, "/workers/"+w.ID().String(), body, "Content-Type", "application/json")
	if _, stays := c.wanted[e.URL]; taken(t, got) && stays {
		c.wanted[e.URL] = priority
	}
}

// taken: a change that is not taken is under way, or has just been done by a call before.
func taken(t *testing.T, got response) bool {
	t.Helper()
	statuses := []int{http.StatusAccepted, http.StatusNotFound, http.StatusConflict}
	require.Contains(t, statuses, got.StatusCode, got.Body)
	return got.StatusCode == http.StatusAccepted
}

// settled waits until the fleet is what it should be, and looks at what is left.
func (c *changing) settled(t *testing.T) {
	t.Helper()
	if text := c.wrong.Load(); text != nil {
		require.Fail(t, "an answer that should not be", *text)
	}
	require.Positive(t, c.served.Load())
	for _, e := range c.engines {
		e.SetFaults()
	}
	c.until(t, func() bool {
		shown := map[string]int{}
		for _, w := range decode[struct{ Workers []shownWorker }](t, c.get(t, "/workers")).Workers {
			if w.Status != "ready" {
				return false
			}
			shown[w.URL] = w.Priority
		}
		return maps.Equal(shown, c.wanted)
	})
	c.quiet(t)
}
