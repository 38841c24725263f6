package discovery

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// reader is a file that is watched, with what it has been told.
type reader struct {
	*File
	log     *journal
	metrics *telemetry.Metrics

	mu   sync.Mutex
	told []Change
}

func (r *reader) Changed(c Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, c)
}

// readingOf watches a file until the test ends. It is read again after check, and looked at all the time.
func readingOf(t *testing.T, path string, check time.Duration) *reader {
	t.Helper()
	r := &reader{log: &journal{}, metrics: telemetry.NewMetrics(telemetry.Options{})}
	r.File = NewFile(path, FileSettings{Check: check, Look: time.Millisecond, Metrics: r.metrics.Discovery, Log: r.log.logger()})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.Watch(ctx, r) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return r
}

// lists waits until the file wants the workers of these ports.
func (r *reader) lists(t *testing.T, ports ...int) {
	t.Helper()
	want := map[string]bool{}
	for _, p := range ports {
		want[fmt.Sprintf("w:%d", p)] = true
	}
	eventually(t, fmt.Sprint("it lists ", ports), func() bool {
		all, ok := r.Wanted()
		for _, w := range all {
			ok = ok && want[w.Address]
		}
		return ok && len(all) == len(ports)
	})
}

// waitFor waits until a line has been logged so often.
func (r *reader) waitFor(t *testing.T, text string, n int) {
	t.Helper()
	eventually(t, text, func() bool { return r.log.count(text) >= n })
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, time.Millisecond, what)
}

// manifest is one of workers on these ports.
func manifest(ports ...int) string {
	var entries []string
	for _, p := range ports {
		entries = append(entries, fmt.Sprintf(`{"url":"http://w:%d"}`, p))
	}
	return `{"version":1,"workers":[` + strings.Join(entries, ",") + `]}`
}

func write(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// capture.md section 8 and DECISIONS 46: it may appear later, and is followed from then on.
func TestAManifestIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.json")
	r := readingOf(t, path, time.Hour)
	r.waitFor(t, "Discovery manifest "+path+" cannot be used: no such file or directory; no workers discovered yet", 1)
	_, ok := r.Wanted()
	require.False(t, ok)

	write(t, path, manifest(1, 2))
	r.lists(t, 1, 2)
	r.waitFor(t, "Discovery manifest "+path+" lists 2 worker(s)", 1)
	write(t, path, manifest(1, 3))
	r.lists(t, 1, 3)
	eventually(t, "told of both", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.told) == 2
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(t, r.told[0].Claimed, 2)
	require.Equal(t, []string{"w:3", "w:2"}, []string{r.told[1].Claimed[0].Address, r.told[1].Withdrawn[0].Address})
	require.True(t, r.told[0].Alters && r.told[1].Alters)
}

// DECISIONS 46: a file that is replaced, or reached by links as that of a ConfigMap, is followed by its name.
func TestAManifestMayBeReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "workers.json")
	write(t, path, manifest(1, 2))
	r := readingOf(t, path, time.Hour)
	r.lists(t, 1, 2)
	write(t, path+".new", manifest(1, 3))
	require.NoError(t, os.Rename(path+".new", path))
	r.lists(t, 1, 3)

	mount := t.TempDir()
	for version, ports := range map[string][]int{"v1": {1, 4}, "v2": {1, 5}} {
		require.NoError(t, os.Mkdir(filepath.Join(mount, version), 0o700))
		write(t, filepath.Join(mount, version, "workers.json"), manifest(ports...))
	}
	data := filepath.Join(mount, "..data")
	require.NoError(t, os.Symlink("v1", data))
	require.NoError(t, os.Symlink(filepath.Join("..data", "workers.json"), filepath.Join(mount, "workers.json")))
	linked := readingOf(t, filepath.Join(mount, "workers.json"), time.Hour)
	linked.lists(t, 1, 4)
	require.NoError(t, os.Symlink("v2", data+".new"))
	require.NoError(t, os.Rename(data+".new", data))
	linked.lists(t, 1, 5)
}

// capture.md section 8: the last good manifest stays in force, with a warning and a count at each reading.
func TestABadManifestKeepsTheLastGoodOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.yaml")
	write(t, path, "version: 1\nworkers:\n- url: http://w:1\n- url: http://w:2\n")
	r := readingOf(t, path, 20*time.Millisecond)
	r.lists(t, 1, 2)
	for i, bad := range []string{"version: 2\nworkers: []\n", "", "version: 1\nworkers: [{url: w}]\n"} {
		before := testutil.ToFloat64(r.metrics.Discovery.SnapshotErrors)
		write(t, path, bad)
		eventually(t, "read again and again", func() bool { return testutil.ToFloat64(r.metrics.Discovery.SnapshotErrors) >= before+3 })
		r.lists(t, 1, 2)
		require.Positive(t, r.log.count([]string{"'version' must be 1", "it is empty", "workers[0]: url 'w'"}[i]+""), bad)
	}
	require.NoError(t, os.Remove(path))
	r.waitFor(t, "no such file or directory; keeping the last good manifest", 2)
	write(t, path, strings.Repeat(" ", maxManifest+1))
	r.waitFor(t, "it is longer than 16 MiB; keeping the last good manifest", 1)
	r.lists(t, 1, 2)
}

// DECISIONS 46: more than half of the workers do not go by a slip of the pen.
func TestAManifestThatRemovesMostIsConfirmedFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.json")
	write(t, path, manifest(1, 2, 3, 4))
	r := readingOf(t, path, time.Hour)
	r.lists(t, 1, 2, 3, 4)
	write(t, path, manifest(1, 2))
	r.lists(t, 1, 2) // half of them is not more than half
	for i, text := range []string{manifest(), manifest(7, 8), manifest()} {
		write(t, path, text)
		r.waitFor(t, "would remove 2 of 2 worker(s); that is done if it still says so in 1h0m0s", i+1)
		r.lists(t, 1, 2)
	}
	write(t, path, manifest(1, 2, 3))
	r.lists(t, 1, 2, 3)

	quick := filepath.Join(t.TempDir(), "workers.json")
	write(t, quick, manifest(1, 2))
	q := readingOf(t, quick, 50*time.Millisecond)
	q.lists(t, 1, 2)
	write(t, quick, manifest())
	q.lists(t)
	require.Equal(t, 1, q.log.count("would remove 2 of 2"))
	require.Equal(t, 1, q.log.count("lists 0 worker(s)"))
}

// capture.md section 8: a worker that an operator has removed comes back at the next reading, so every one of them asks for a pass.
func TestEveryReadingAsksForAPass(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers.json")
	write(t, path, manifest(1))
	r := readingOf(t, path, 5*time.Millisecond)
	eventually(t, "told again and again", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.told) > 3
	})
	require.True(t, r.told[0].Alters)
	require.Equal(t, Change{}, r.told[2])
	require.Equal(t, 1, r.log.count("lists 1 worker(s)"))
}
