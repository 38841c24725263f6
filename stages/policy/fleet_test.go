package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// fleet is n ready workers of one model in a registry. Nothing listens at their addresses: a policy contacts nobody.
func fleet(t testing.TB, n int) (*workers.Registry, []*workers.Worker) {
	t.Helper()
	all := make([]*workers.Worker, n)
	for i := range all {
		all[i] = worker(t, fmt.Sprintf("http://127.0.0.1:%d", i+1), nil)
	}
	return workers.NewRegistry(all...), all
}

// worker is one ready worker with labels.
func worker(t testing.TB, url string, labels map[string]string) *workers.Worker {
	t.Helper()
	spec := workers.NewSpec(url)
	spec.Labels = labels
	w, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	w.SetStatus(workers.Ready)
	return w
}

// pool is what the candidates stage finds: the published list of all workers.
func pool(r *workers.Registry) workers.List { return r.Pool("", workers.Regular, workers.HTTP) }

// available is what the filters leave of it.
func available(r *workers.Registry) workers.List {
	return pool(r).Keep(nil, (*workers.Worker).Available)
}

// picks chooses n times, and returns the places in all of who was chosen.
func picks(t testing.TB, p Policy, n int, among workers.List, all []*workers.Worker) []int {
	t.Helper()
	places := make([]int, n)
	for k := range places {
		i := p.Select(&pipeline.Exchange{}, among)
		require.GreaterOrEqual(t, i, 0, "choice %d", k)
		require.Less(t, i, among.Len(), "choice %d", k)
		places[k] = place(all, among.At(i))
	}
	return places
}

func place(all []*workers.Worker, w *workers.Worker) int {
	for i, m := range all {
		if m == w {
			return i
		}
	}
	return -1
}

// tally counts how often each place was chosen.
func tally(places []int) map[int]int {
	counts := map[int]int{}
	for _, i := range places {
		counts[i]++
	}
	return counts
}

// records is a logger whose records a test reads.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func newRecords() (*records, *slog.Logger) {
	r := &records{}
	return r, slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (r *records) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

// at are the records of a level, in order.
func (r *records) at(t testing.TB, level slog.Level) []map[string]any {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []map[string]any
	for line := range bytes.Lines(r.buf.Bytes()) {
		record := map[string]any{}
		require.NoError(t, json.Unmarshal(line, &record))
		if record["level"] == level.String() {
			found = append(found, record)
		}
	}
	return found
}
