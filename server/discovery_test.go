package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/workers"
)

// manifest is a file that lists workers.
type manifest struct {
	t    testing.TB
	path string
}

// lists replaces the file by one with these entries, in one step, as whoever renders such files does.
func (m manifest) lists(entries ...string) {
	m.t.Helper()
	m.holds(`{"version":1,"workers":[` + strings.Join(entries, ",") + `]}`)
}

func (m manifest) holds(text string) {
	m.t.Helper()
	next := m.path + ".next"
	require.NoError(m.t, os.WriteFile(next, []byte(text), 0o644))
	require.NoError(m.t, os.Rename(next, m.path))
}

// startListed runs a gateway whose workers a file lists that is not there yet.
func startListed(t *testing.T, configure func(*Config)) (*running, manifest) {
	t.Helper()
	m := manifest{t, filepath.Join(t.TempDir(), "workers.json")}
	g := start(t, func(c *Config) {
		c.Provider, c.DiscoveryFile, c.CheckInterval, c.DrainSettle = new("file"), m.path, 1, 0
		if configure != nil {
			configure(c)
		}
	})
	return g, m
}

func listing(url string, more ...string) string {
	return "{" + strings.Join(append([]string{fmt.Sprintf(`"url":%q`, url)}, more...), ",") + "}"
}

// ids are those of the ready workers by URL.
func (g *running) ids() map[string]string {
	found := map[string]string{}
	for _, w := range g.gateway.registry.All() {
		if w.Status() == workers.Ready {
			found[w.URL()] = w.ID().String()
		}
	}
	return found
}

// serves waits until exactly these workers are ready.
func (g *running) serves(t testing.TB, engines ...*engine.Running) map[string]string {
	t.Helper()
	var want []string
	for _, e := range engines {
		want = append(want, e.URL)
	}
	var now map[string]string
	require.Eventually(t, func() bool {
		now = g.ids()
		return len(now) == len(want) && g.gateway.registry.Len() == len(want) && !slices.ContainsFunc(want, func(url string) bool { return now[url] == "" })
	}, patience, time.Millisecond, "want %v", want)
	return now
}

// logs waits for a line of the log.
func (g *running) logs(t testing.TB, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(g.Log.String(), text) }, patience, time.Millisecond, "the log never said: %s", text)
}

// capture.md section 8: workers come, change and go with the file.
func TestWorkersFollowAFile(t *testing.T) {
	t.Parallel() // it waits
	one, two := engine.Start(t, engine.Config{Models: []string{"m1"}}), engine.Start(t, engine.Config{Models: []string{"m2"}})
	g, file := startListed(t, nil)
	g.logs(t, "no workers discovered yet")
	require.Equal(t, http.StatusServiceUnavailable, g.post(t, chatPath, chat).StatusCode)

	file.lists(listing(one.URL, `"id":"a"`), listing(two.URL))
	before := g.serves(t, one, two)
	g.await(t, "/readiness", http.StatusOK)
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	shown := decode[shownWorker](t, g.get(t, "/workers/"+before[one.URL]))
	require.Equal(t, "file", shown.Labels["smg.ai/discovery-provider"])
	require.Equal(t, "a", shown.Labels["smg.ai/discovery-id"])
	require.Len(t, shown.Labels["smg.ai/discovery-spec-hash"], 64)

	file.lists(listing(one.URL, `"id":"a"`), listing(two.URL, `"model_id":"named"`))
	g.until(t, func() bool { now := g.ids(); return len(now) == 2 && now[two.URL] != before[two.URL] })
	after := g.serves(t, one, two)
	require.Equal(t, before[one.URL], after[one.URL], "nothing of it has changed")
	require.Equal(t, http.StatusOK, g.post(t, chatPath, strings.Replace(chat, "m1", "named", 1)).StatusCode)

	file.lists(listing(one.URL, `"id":"a"`))
	g.serves(t, one)
	require.Equal(t, http.StatusNotFound, g.post(t, chatPath, strings.Replace(chat, "m1", "named", 1)).StatusCode)
	for _, line := range []string{
		"lists 2 worker(s)", "Reconciling workers: 2 to add, 0 to remove (2 desired)", "lists 1 worker(s)",
		"Registering worker " + one.URL + " (Regular) as a", "IGW mode is on, because of service discovery",
	} {
		require.Contains(t, g.Log.String(), line)
	}
}

// capture.md section 8, DECISIONS.md row 46: what cannot be read changes nothing.
func TestAFileThatIsWrongKeepsTheWorkers(t *testing.T) {
	t.Parallel() // it waits
	one := engine.Start(t, engine.Config{})
	g, file := startListed(t, nil)
	file.lists(listing(one.URL))
	before := g.serves(t, one)
	errors := func() float64 {
		counters, _ := g.numbers(t)
		return counters["smg_discovery_snapshot_errors_total"]
	}
	seen := errors() // it was not there at first
	for _, text := range []string{`{"version":1,"workers":[`, `{"version":2,"workers":[]}`, `{"version":1,"workers":[{"url":"` + one.URL + `","color":"red"}]}`, ""} {
		file.holds(text)
		g.until(t, func() bool { return errors() > seen })
		seen = errors()
		g.logs(t, "keeping the last good manifest")
		require.Equal(t, before, g.ids())
	}
	require.NoError(t, os.Remove(file.path))
	g.until(t, func() bool { return errors() > seen+1 })
	require.Equal(t, before, g.ids(), "a file that is gone is no empty one")
	file.lists(listing(one.URL))
	require.Equal(t, before, g.serves(t, one))
}

// DECISIONS.md row 46: most workers at once do not leave before the file has been read once more.
func TestAFileWithoutMostWorkersIsReadTwice(t *testing.T) {
	t.Parallel() // it waits
	fleet := fleetOf(t, 3)
	g, file := startListed(t, nil)
	file.lists(listing(fleet[0].URL), listing(fleet[1].URL), listing(fleet[2].URL))
	before := g.serves(t, fleet...)
	file.lists(listing(fleet[0].URL))
	after := g.serves(t, fleet[0])
	require.Equal(t, before[fleet[0].URL], after[fleet[0].URL])
	log := g.Log.String()
	doubt, removal := strings.Index(log, "would remove 2 of 3 worker(s)"), strings.Index(log, "Removing worker ")
	require.Positive(t, doubt)
	require.Less(t, doubt, removal, log)

	file.lists()
	g.serves(t)
}

// capture.md section 8; discovery.md section 11: what a person does to a worker of the file does not last, and what the file does not
// name is left alone.
func TestAWorkerOfTheFileComesBackAndOthersStay(t *testing.T) {
	t.Parallel() // it waits
	listed, named, posted := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	g, file := startListed(t, func(c *Config) { c.WorkerURLs = []string{named.URL} })
	g.enrol(t, posted.URL)
	file.lists(listing(listed.URL))
	before := g.serves(t, listed, named, posted)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+before[listed.URL], "").StatusCode)
	g.until(t, func() bool { id := g.ids()[listed.URL]; return id != "" && id != before[listed.URL] })
	file.lists()
	now := g.serves(t, named, posted)
	require.Equal(t, before[named.URL], now[named.URL])
	require.Equal(t, before[posted.URL], now[posted.URL])
}

// DECISIONS.md row 51: who is about to leave gets no request, and whoever asks is told why.
func TestACordonedWorkerIsExplained(t *testing.T) {
	fleet := fleetOf(t, 2)
	g := start(t, nil, fleet...)
	g.serves(t, fleet...)
	leaving := g.worker(t, fleet[0].URL)
	require.True(t, g.gateway.registry.Cordon(leaving, true))

	e := g.explained(t, "", hello)
	require.Equal(t, []string{fleet[1].URL}, urls(e.Candidates))
	require.Equal(t, []stages.ExplainedLeaving{{ExplainedWorker: named(leaving), Stage: "available", Reason: "cordoned: discovery does not want it any more"}}, e.LeftOut)
	require.Equal(t, fleet[1].URL, e.Choice.URL)
	shown := decode[map[string]any](t, g.get(t, "/workers/"+leaving.ID().String()))
	require.Equal(t, true, shown["cordoned"])
	require.Equal(t, "ready", shown["status"], "its state is as it was")
	for range 4 {
		require.Equal(t, http.StatusOK, g.post(t, chatPath, hello).StatusCode)
	}
	require.Empty(t, slices.DeleteFunc(fleet[0].Requests(), func(r engine.Request) bool { return r.Path != chatPath }))

	require.True(t, g.gateway.registry.Cordon(g.worker(t, fleet[1].URL), true))
	require.Equal(t, http.StatusServiceUnavailable, g.get(t, "/readiness").StatusCode)
	e = g.explained(t, "", hello)
	require.Equal(t, "no_available_workers", e.Error.Code)
}
