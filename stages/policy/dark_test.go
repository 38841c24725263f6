package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// policies.md, section 7.3, and load-signals.md, section 4.4: a worker whose load is not known neither attracts everything nor starves,
// while requests come and go. The others' load is reported once, so that their credit grows from then on.
func TestAWorkerWithoutAReportGetsItsShare(t *testing.T) {
	tests := []struct {
		name              string
		states            []state // the last one has no report
		inFlight, atLeast int     // requests at the same time; percent of all
	}{
		{"beside one that is idle", []state{reported(load(0, 0, 100)), dark(0)}, 8, 25},
		{"beside one that has a queue", []state{reported(load(20_000, 0.5, 100)), dark(0)}, 8, 25},
		{"beside one that tells no throughput", []state{reported(load(0, 0, 0)), dark(0)}, 8, 25},
		{"beside three", []state{reported(load(0, 0, 100)), reported(load(0, 0, 100)), reported(load(0, 0, 100)), dark(0)}, 32, 15},
		{"at one request at a time", []state{reported(load(0, 0, 100)), dark(0)}, 1, 25},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := in(t, tt.states...)
			s := newBuiltInWait(nil)
			served := map[int]int{}
			var flying []*workers.Worker
			const requests = 4000
			for range requests {
				if len(flying) == tt.inFlight {
					flying[0].End()
					flying = flying[1:]
				}
				i := chosen(s, all, 0)
				all[i].Begin()
				flying = append(flying, all[i])
				served[i]++
			}
			own := served[len(all)-1] * 100 / requests
			require.GreaterOrEqual(t, own, tt.atLeast, "percent")
			require.LessOrEqual(t, own, 75, "percent")
		})
	}
}
