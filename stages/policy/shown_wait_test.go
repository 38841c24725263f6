package policy

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// telemetry.md, section 5: the score that the policies which go by load last computed, and nothing where there is none.
func TestExpectedWaitIsShown(t *testing.T) {
	for _, tt := range []struct {
		policy string
		sticky bool
		knows  bool
	}{{"least_load", false, true}, {"least_load", true, true}, {"cache_aware", false, true}, {"random", false, false}} {
		t.Run(tt.policy, func(t *testing.T) {
			set, err := NewSet(tt.policy, Settings{Sticky: tt.sticky}, nil, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			r := workers.NewRegistry()
			defer r.Listen(set)()
			w := labelled(t, 1, "m", "")
			w.SetStatus(workers.Ready)
			require.NoError(t, r.Add(w))
			none := func(why string) {
				t.Helper()
				_, known := set.ExpectedWait(w)
				require.False(t, known, why)
			}
			none("no report")
			now := time.Now()
			w.SetReport(workers.NewReport(now, now, "", []workers.RankLoad{{Waiting: 1, WaitingTokens: 5000, Throughput: 1000}}))
			none("nobody has chosen since the report")
			require.Zero(t, set.For("m").Select(&pipeline.Exchange{Model: "m"}, r.Pool("m", workers.Regular, workers.HTTP)))
			seconds, known := set.ExpectedWait(w)
			require.Equal(t, tt.knows, known)
			if known {
				require.GreaterOrEqual(t, seconds, 5.0, "what was queued, and the request")
			}
			w.SetReport(nil)
			none("the report is gone")
		})
	}
}
