package workers

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parallel are the pages of a healthy SGLang engine with data-parallel ranks.
func parallel(info, loads string) map[string]page {
	pages := sglang("m")
	pages["/server_info"] = ok(info)
	if loads != "" {
		pages["/v1/loads"] = ok(loads)
	}
	return pages
}

// workers.md section 5, cases.md C30
func TestEngineIsOneWorkerForEachRank(t *testing.T) {
	tests := []struct {
		name, info, loads string
		ranks             []int
		fails             string
	}{
		{"four ranks", `{"dp_size":4}`, "", []int{0, 1, 2, 3}, ""},
		{"one rank is one, with its number", `{"dp_size":1}`, "", []int{0}, ""},
		{"the load report numbers them from 0", `{"dp_size":2}`, `{"loads":[{"dp_rank":0},{"dp_rank":1}]}`, []int{0, 1}, ""},
		{"ranks of a larger group", `{"dp_size":2}`, `{"loads":[{"dp_rank":5},{"dp_rank":4}]}`, []int{4, 5}, ""},
		{"a report that does not fit says nothing", `{"dp_size":2}`, `{"loads":[{"dp_rank":4},{"dp_rank":7}]}`, []int{0, 1}, ""},
		{"a report of some ranks says nothing", `{"dp_size":3}`, `{"loads":[{"dp_rank":4},{"dp_rank":5}]}`, []int{0, 1, 2}, ""},
		{"a report without numbers says nothing", `{"dp_size":1}`, `{"loads":[{}]}`, []int{0}, ""},
		{"garbage says nothing", `{"dp_size":1}`, `[`, []int{0}, ""},
		{"no size", `{"tp_size":4}`, "", nil, "the engine does not tell its dp_size, which --dp-aware needs; it says ''"},
		{"a size that is none", `{"dp_size":"many"}`, "", nil, "it says 'many'"},
		{"a size beyond all reason", `{"dp_size":1000000}`, "", nil, "it says '1000000'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			engine := startEngine(t, parallel(tt.info, tt.loads))
			e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil, WithRanks(true))
			defer e.Close()
			spec := NewSpec(engine.URL)
			spec.APIKey = "k1"
			w, err := e.Add(t.Context(), spec)
			if tt.fails != "" {
				require.ErrorContains(t, err, tt.fails)
				require.Zero(t, e.registry.Len())
				return
			}
			require.NoError(t, err)
			var got []int
			for _, one := range e.registry.All() {
				rank, ranked := one.Rank()
				require.True(t, ranked)
				got = append(got, rank)
				require.Equal(t, fmt.Sprintf("%s@%d", engine.URL, rank), one.URL())
				require.Equal(t, engine.URL, one.Endpoint().Base)
				require.Equal(t, engine.URL, one.Spec().DPBaseURL)
				require.Equal(t, len(tt.ranks), *one.Spec().DPSize)
				require.Equal(t, rank, *one.Spec().DPRank)
				require.True(t, one.Ready())
				require.Equal(t, "Bearer k1", one.Bearer())
			}
			require.Equal(t, tt.ranks, got)
			require.Same(t, e.registry.All()[0], w)
			require.True(t, e.registry.Ranked())
			for _, r := range engine.requests() {
				require.NotContains(t, r.URL.Path+r.Host, "@", "a rank never leaves the gateway")
			}
		})
	}
}

// workers.md section 5
func TestEngineThatTellsNoRanksIsOneWorker(t *testing.T) {
	engine := startEngine(t, map[string]page{"/health": ok(""), "/v1/models": ok(`{"data":[{"id":"m","owned_by":"vllm"}]}`)})
	var log lines
	e := NewEnroller(NewRegistry(), DefaultSettings(), quick, slog.New(slog.NewTextHandler(&log, nil)), WithRanks(true))
	defer e.Close()
	w, err := e.Add(t.Context(), NewSpec(engine.URL))
	require.NoError(t, err)
	require.Equal(t, engine.URL, w.URL())
	_, ranked := w.Rank()
	require.False(t, ranked)
	require.False(t, e.registry.Ranked())
	require.Contains(t, log.String(), "level=WARN msg=\"engine tells nothing of data-parallel ranks")

	plain := startEngine(t, parallel(`{"dp_size":4}`, ""))
	off := enrollerOf(t, quick, nil)
	_, err = off.Add(t.Context(), NewSpec(plain.URL))
	require.NoError(t, err)
	require.Equal(t, 1, off.registry.Len(), "without the flag an engine is one worker")
}

// workers.md sections 5 and 17: a rank's id stands for this rank, an address for all of them
func TestRanksComeAndGo(t *testing.T) {
	engine := startEngine(t, parallel(`{"dp_size":3}`, ""))
	settings := DefaultSettings()
	settings.DrainSettle = 0
	e := NewEnroller(NewRegistry(), settings, quick, nil, WithRanks(true))
	defer e.Close()
	first, err := e.Add(t.Context(), NewSpec(engine.URL))
	require.NoError(t, err)
	ids := map[ID]bool{}
	for _, w := range e.registry.All() {
		ids[w.ID()] = true
	}
	require.Len(t, ids, 3)
	require.EqualError(t, e.Replace(first.ID(), NewSpec(first.URL())), (&RanksError{}).Error())
	require.EqualValues(t, 1, patched(t, e, first.ID(), `{"priority":1}`).Revision())

	_, err = e.Reserve(NewSpec(engine.URL))
	require.ErrorContains(t, err, "Worker already exists at URL '"+engine.URL+"@0'")
	require.NoError(t, e.Remove(first.ID()))
	eventually(t, "one rank is gone", func() bool { return e.registry.Len() == 2 })
	_, err = e.Reserve(NewSpec(engine.URL))
	require.ErrorContains(t, err, "already exists", "the others are there")
	back, err := e.Add(t.Context(), NewSpec(engine.URL+"@0"))
	require.NoError(t, err)
	require.Equal(t, engine.URL+"@0", back.URL())
	require.Equal(t, 3, e.registry.Len())
	_, err = e.Add(t.Context(), NewSpec(engine.URL+"@7"))
	require.ErrorContains(t, err, "the engine has the ranks 0 to 2, not 7")

	require.NoError(t, e.RemoveAt(t.Context(), strings.TrimPrefix(engine.URL, "http://")))
	eventually(t, "all are gone", func() bool { return e.registry.Len() == 0 })
}

// workers.md sections 5 and 12: an engine that comes back with fewer ranks
func TestUpsertOfRanks(t *testing.T) {
	engine := startEngine(t, parallel(`{"dp_size":3}`, ""))
	e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil, WithRanks(true))
	defer e.Close()
	require.NoError(t, e.Upsert(t.Context(), NewSpec(engine.URL)))
	eventually(t, "three", func() bool { return e.registry.Len() == 3 && !e.jobs.Busy(addressOf(engine.URL)) })
	before := e.registry.All()
	engine.set("/server_info", ok(`{"dp_size":2}`))
	require.NoError(t, e.Upsert(t.Context(), NewSpec(engine.URL)))
	eventually(t, "two", func() bool { return e.registry.Len() == 2 && !e.jobs.Busy(addressOf(engine.URL)) })
	for i, w := range e.registry.All() {
		require.Equal(t, before[i].ID(), w.ID())
		require.EqualValues(t, 1, w.Revision())
		require.True(t, w.Ready())
	}
}

// workers.md section 5: a URL clash rejects the whole batch
func TestABatchIsAddedWholeOrNotAtAll(t *testing.T) {
	r := NewRegistry()
	add(t, r, NewSpec("http://w:1@1"))
	err := r.Add(made(t, NewSpec("http://w:1@0")), made(t, NewSpec("http://w:1@1")))
	require.ErrorContains(t, err, "already exists at URL 'http://w:1@1'")
	require.Equal(t, 1, r.Len())
}
