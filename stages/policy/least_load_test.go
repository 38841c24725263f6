package policy

import (
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// leastLoadWith is least_load with built-in settings but those that change.
func leastLoadWith(change func(*Settings)) Policy {
	s := BuiltIn(Shared{})
	change(&s)
	return LeastLoad(s, slog.New(slog.DiscardHandler))
}

func capped(requests int64) Policy {
	return leastLoadWith(func(s *Settings) { s.MaxWaiting, s.KVPressureWeight, s.DefaultThroughput = requests, 0, 100 })
}

// policies.md, section 8, "Waiting cap"
func TestAWorkerAtTheWaitingCapIsNotChosen(t *testing.T) {
	const nobody = -1
	tests := []struct {
		name   string
		limit  int64
		states []state
		want   []int // one choice after the other, without a report between them
	}{
		{"the worker over the cap is left out though it is cheaper", 48, []state{reported(waiting(64, 0, 0)), reported(load(1_000_000, 0, 0))}, []int{1, 1}},
		{"with everybody at the cap nobody is chosen", 48, []state{reported(waiting(48, 0, 0)), reported(waiting(48, 0, 0))}, []int{nobody}},
		{"one worker alone is under the cap as well", 48, []state{reported(waiting(64, 0, 0))}, []int{nobody}},
		{"what was sent since the report counts", 48, []state{reported(waiting(47, 0, 0))}, []int{0, nobody, nobody}},
		{"below the cap the cheaper one is chosen, until it is full", 2, []state{reported(waiting(1, 0, 0)), reported(load(400000, 0, 0))}, []int{0, 1, 1, nobody}},
		{"a worker without a report is never left out", 1, []state{dark(5), dark(0)}, []int{1, 1, 1}},
		{"nor is it when the others are", 1, []state{dark(50), reported(waiting(1, 0, 0))}, []int{0, 0}},
		{"without a cap any number may wait", 0, []state{reported(waiting(1000, 0, 0)), reported(waiting(1000, 0, 0))}, []int{0, 1}},
		{"more than can be counted is over any cap", 5, []state{reported(waiting(math.MaxInt64, 0, 0)), reported(waiting(0, 0, 0))}, []int{1, 1, 1, 1, 1, nobody}},
		{"less than none waits: that is none", 1, []state{reported(waiting(-7, 0, 0))}, []int{0, nobody}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := in(t, tt.states...)
			p := capped(tt.limit)
			var got []int
			for range tt.want {
				got = append(got, p.Select(&pipeline.Exchange{}, workers.ListOf(all...)))
			}
			if tt.limit == 0 {
				require.ElementsMatch(t, tt.want, got, "equals, in any order")
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// policies.md, section 8: the baseline and the nominal throughput are of those who are under the cap.
func TestWhoIsOverTheCapIsNoMeasureForTheOthers(t *testing.T) {
	all := in(t, reported(waiting(5, 0, 100000)), reported(load(1000, 0, 100)), dark(2))
	s := newExpectedWait(0, 2000, 1024, 5, nil)
	x := &pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}
	require.Equal(t, 1, s.pick(x, workers.ListOf(all...), nil, 0, 0))
	require.InDeltaSlice(t, []float64{10, 10 + 20.48}, rated(x.Explain, all)[1:], 1e-9)
	require.Equal(t, []pipeline.LeftOut{{Worker: all[0], Stage: "policy", Reason: "at the waiting cap"}}, x.Explain.LeftOut)
}

// policies.md, sections 8 and 20: the flags reach least_load.
func TestLeastLoadTakesItsTuning(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Settings)
		rank   workers.RankLoad
		want   float64
	}{
		{"built in", func(*Settings) {}, waiting(1, 0.5, 0), 1024.0/2000 + 0.15},
		{"weight", func(s *Settings) { s.KVPressureWeight = 3 }, waiting(1, 0.5, 0), 1024.0/2000 + 3},
		{"weight off", func(s *Settings) { s.KVPressureWeight = 0 }, waiting(1, 0.5, 0), 1024.0 / 2000},
		{"throughput", func(s *Settings) { s.DefaultThroughput = 512 }, waiting(1, 0.5, 0), 2 + 0.15},
		{"mean prefill", func(s *Settings) { s.MeanPrefillTokens = 2000 }, waiting(1, 0.5, 0), 1 + 0.15},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := in(t, reported(tt.rank))
			x := &pipeline.Exchange{DryRun: true, Explain: &pipeline.Explanation{}}
			leastLoadWith(tt.change).Select(x, workers.ListOf(all...))
			require.InDelta(t, tt.want, x.Explain.Scores[0].Value, 1e-9)
		})
	}
}

// policies.md, section 2: what it reads.
func TestExpectedWaitPoliciesReadLoadsAndNoText(t *testing.T) {
	for _, name := range []string{"least_load", "power_of_two"} {
		wants := newPolicy(t, name).Wants()
		require.NotZero(t, wants&pipeline.WantLoads, name)
		require.Zero(t, wants&pipeline.WantText, name)
	}
}

// policies.md, section 8: a request's own tokens weigh, where they are known.
func TestLeastLoadWeighsTheTokensOfARequest(t *testing.T) {
	all := in(t, reported(load(0, 0.2, 100)), reported(load(2048, 0.2, 100)))
	p := newPolicy(t, "least_load")
	x := &pipeline.Exchange{Prompt: pipeline.RoutingPrompt{Tokens: make([]uint32, 2100)}}
	require.Equal(t, 0, p.Select(x, workers.ListOf(all...)))
	require.Equal(t, 1, p.Select(&pipeline.Exchange{}, workers.ListOf(all...)))
}

// policies.md, section 22, telemetry.md, section 7.5: one line for each decision, at debug level, none for a dry run.
func TestExpectedWaitPoliciesTellTheirDecisions(t *testing.T) {
	for _, name := range []string{"least_load", "power_of_two"} {
		t.Run(name, func(t *testing.T) {
			said, log := newRecords()
			p, err := New(name, BuiltIn(Shared{}), log)
			require.NoError(t, err)
			all := in(t, reported(load(12345, 0.2, 700)))
			busy(all[0], 3)
			p.Select(&pipeline.Exchange{DryRun: true}, workers.ListOf(all...))
			require.Empty(t, said.at(t, slog.LevelDebug))
			p.Select(&pipeline.Exchange{Model: "m"}, workers.ListOf(all...))
			lines := said.at(t, slog.LevelDebug)
			require.Len(t, lines, 1)
			delete(lines[0], "time")
			require.Equal(t, map[string]any{
				"level": "DEBUG", "msg": name + " selection", "target": "smg::policies::" + name, "policy": name,
				"worker": all[0].URL(), "model_id": "m", "score": 17.6732, "in_flight": 3.0,
			}, lines[0])
		})
	}
}
