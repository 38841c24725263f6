package discovery

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// fakeEngine is a real server that says it has a number of data-parallel ranks, and remembers the keys that it was asked with.
type fakeEngine struct {
	*httptest.Server
	ranks atomic.Int32
	mu    sync.Mutex
	keys  map[string]bool
}

func startEngine(t *testing.T) *fakeEngine {
	t.Helper()
	e := &fakeEngine{keys: map[string]bool{}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.keys[r.Header.Get("Authorization")] = true
		e.mu.Unlock()
		switch r.URL.Path {
		case "/health":
		case "/v1/models":
			_, _ = fmt.Fprint(w, `{"data":[{"id":"m","owned_by":"sglang"}]}`)
		case "/server_info", "/model_info":
			_, _ = fmt.Fprintf(w, `{"dp_size":%d}`, e.ranks.Load())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(e.Close)
	return e
}

// house is a discovery at work on real engines, with short times.
type house struct {
	registry *workers.Registry
	enroller *workers.Enroller
	metrics  *telemetry.Metrics
	log      *journal
}

func newHouse(t *testing.T, source Source, options ...workers.EnrolOption) *house {
	t.Helper()
	settings := workers.DefaultSettings()
	settings.DrainSettle = 5 * time.Millisecond
	h := &house{registry: workers.NewRegistry(), metrics: telemetry.NewMetrics(telemetry.Options{}), log: &journal{}}
	h.enroller = workers.NewEnroller(h.registry, settings, workers.Startup{Interval: 5 * time.Millisecond, Timeout: time.Minute}, h.log.logger(), options...)
	d := New(source, h.registry, h.enroller, Settings{
		Prompt: time.Millisecond, Gather: 20 * time.Millisecond, Every: 50 * time.Millisecond, APIKey: "secret",
		Metrics: h.metrics.Discovery, Log: h.log.logger(),
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- d.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-over)
		h.enroller.Close()
	})
	return h
}

// ready waits until so many workers are candidates, and gives them.
func (h *house) ready(t *testing.T, n int) []*workers.Worker {
	t.Helper()
	eventually(t, fmt.Sprint(n, " workers are ready"), func() bool {
		all := h.registry.All()
		for _, w := range all {
			if !w.Candidate() {
				return false
			}
		}
		return len(all) == n
	})
	return h.registry.All()
}

// podAt is the claim of a pod on an engine.
func podAt(e *fakeEngine, uid string) string { return e.Listener.Addr().String() + "=" + uid }

// discovery.md sections 6 and 12: a bare address, the gateway's key, both labels.
func TestAPodIsRegisteredWithItsLabels(t *testing.T) {
	e, source := startEngine(t), &puppet{name: kubernetesSource}
	h := newHouse(t, source)
	source.listened(t)
	source.set(podAt(e, "u1"))
	w := h.ready(t, 1)[0]
	require.Equal(t, e.URL, w.URL())
	require.Equal(t, "m", w.Model())
	require.Equal(t, "Bearer secret", w.Bearer())
	require.Equal(t, "u1", w.Spec().Labels[LabelPodUID])
	require.Equal(t, "u1", w.Spec().Labels[LabelPodName])
	e.mu.Lock()
	defer e.mu.Unlock()
	require.Equal(t, map[string]bool{"Bearer secret": true}, e.keys, "every question brings it")
}

// discovery.md section 8 and D37: the ranks of an engine are removed by one job, whatever their revisions.
func TestRanksComeAndGoTogether(t *testing.T) {
	e, source := startEngine(t), &puppet{name: kubernetesSource}
	e.ranks.Store(4)
	h := newHouse(t, source, workers.WithRanks(true))
	source.listened(t)
	source.set(podAt(e, "u1"))
	ranks := h.ready(t, 4)
	for _, w := range ranks {
		require.Equal(t, "u1", w.Spec().Labels[LabelPodUID])
	}
	require.NoError(t, h.enroller.Update(ranks[2].ID(), workers.Patch{Priority: new(uint32(9))}))
	eventually(t, "patched", func() bool { return h.registry.ByID(ranks[2].ID()).Revision() == 1 })
	source.set()
	h.ready(t, 0)
	require.Equal(t, 1, h.log.count("(4 registration(s), pod u1)"))
	require.Equal(t, 1, h.log.count("Draining 4 worker(s)"))
}

// discovery.md section 11: PUT without the labels makes a worker somebody else's.
func TestAReplacementWithoutLabelsIsLetGo(t *testing.T) {
	e, source := startEngine(t), &puppet{name: kubernetesSource}
	h := newHouse(t, source)
	source.listened(t)
	source.set(podAt(e, "u1"))
	w := h.ready(t, 1)[0]
	require.NoError(t, h.enroller.Replace(w.ID(), workers.NewSpec(e.URL)))
	eventually(t, "replaced", func() bool { return h.registry.ByID(w.ID()).Revision() == 1 })
	source.set()
	source.set(podAt(e, "u1"))
	eventually(t, "it is in the way", func() bool { return h.log.count("was added by hand") == 1 })
	require.Equal(t, w.ID(), h.ready(t, 1)[0].ID())
	require.Empty(t, h.registry.All()[0].Spec().Labels[LabelPodUID])
}

// capture.md section 8: a manifest through to the registry, the lines of the log included.
func TestAManifestBecomesWorkers(t *testing.T) {
	a, b, c := startEngine(t), startEngine(t), startEngine(t)
	entry := func(e *fakeEngine, id, more string) string {
		return fmt.Sprintf(`{"url":"%s","id":"%s"%s}`, e.URL, id, more)
	}
	list := func(entries ...string) string {
		text := ""
		for i, e := range entries {
			if i > 0 {
				text += ","
			}
			text += e
		}
		return `{"version":1,"workers":[` + text + `]}`
	}
	path := filepath.Join(t.TempDir(), "workers.json")
	write(t, path, list(entry(a, "a", ""), entry(b, "b", ""), entry(c, "c", "")))
	h := newHouse(t, NewFile(path, FileSettings{Check: 50 * time.Millisecond, Look: time.Millisecond}))
	h.ready(t, 3)
	was := h.registry.ByURL(a.URL)
	require.Equal(t, "a", was.Spec().Labels[LabelID])
	require.Equal(t, "file", was.Spec().Labels[LabelProvider])
	require.Equal(t, 1, h.log.count(fmt.Sprintf("Registering worker %s (Regular) as a", a.URL)))

	write(t, path, list(entry(a, "a", `,"model_id":"mm"`), entry(b, "b", "")))
	eventually(t, "changed and removed", func() bool {
		now := h.registry.ByURL(a.URL)
		return now != nil && now.Model() == "mm" && h.registry.Len() == 2
	})
	require.NotEqual(t, was.ID(), h.registry.ByURL(a.URL).ID(), "a change of an entry is another worker")
	require.Equal(t, 1, h.log.count(fmt.Sprintf("Removing worker %s (1 registration(s), c): no longer published, a different instance now holds the address, "+
		"or it is a stale registration beside the current one", c.URL)))

	gone := h.registry.ByURL(b.URL).ID()
	require.NoError(t, h.enroller.Remove(gone))
	eventually(t, "back again", func() bool {
		w := h.registry.ByURL(b.URL)
		return w != nil && w.ID() != gone && w.Ready()
	})
	write(t, path, list())
	h.ready(t, 0)
}
