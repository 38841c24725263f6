package workers

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// fussy is a listener that breaks when a worker turns ready.
type fussy struct{ Deaf }

func (fussy) WorkerStatus(_ *Worker, _, to Status) {
	if to == Ready {
		panic("not this one")
	}
}

// workers.md sections 11 and 12: no half-registered worker, and a panic is the job's failure
func TestAWorkerThatCannotBeActivatedIsTakenOutAgain(t *testing.T) {
	engine := startEngine(t, parallel(`{"dp_size":2}`, ""))
	var log lines
	e := NewEnroller(NewRegistry(), DefaultSettings(), quick, slog.New(slog.NewTextHandler(&log, nil)), WithRanks(true))
	defer e.Close()
	defer e.registry.Listen(fussy{})()
	_, err := e.Add(t.Context(), NewSpec(engine.URL))
	require.EqualError(t, err, "panic: not this one")
	require.Zero(t, e.registry.Len())
	require.Zero(t, e.registry.Pool("m", Regular, HTTP).Len())
	require.Contains(t, log.String(), "a job panicked")
	s, ok := e.jobs.Status(addressOf(engine.URL))
	require.True(t, ok)
	require.Equal(t, "failed", s.Status)
	require.Empty(t, e.adding)
}

// workers.md section 12, upsert: the id stays, the engine is asked anew
func TestUpsertReplaces(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	e := enrollerOf(t, quick, nil)
	var heard diary
	defer e.registry.Listen(&heard)()
	for revision := range uint64(3) {
		require.NoError(t, e.Upsert(t.Context(), NewSpec(engine.URL)))
		eventually(t, "registered", func() bool {
			w := e.registry.ByURL(engine.URL)
			return w != nil && w.Revision() == revision && w.Ready() && !e.jobs.Busy(w.endpoint.Address)
		})
	}
	require.Equal(t, []string{"added " + engine.URL + " pending", engine.URL + " pending>ready", "replaced " + engine.URL, "replaced " + engine.URL}, heard.lines)
	require.ErrorContains(t, e.Upsert(t.Context(), NewSpec("nope")), "worker_url")
}
