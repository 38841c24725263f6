package stages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md, section 10, and DECISIONS 32: which answers of the first worker send the request to the second one.
func TestRetryTriesAgainWhatMayGoBetterElsewhere(t *testing.T) {
	tests := []struct {
		name    string
		fault   engine.Fault
		retried bool
	}{
		{"request timeout", engine.Fault{Status: 408}, true},
		{"too many requests", engine.Fault{Status: 429}, true},
		{"internal error", engine.Fault{Status: 500}, true},
		{"bad gateway", engine.Fault{Status: 502}, true},
		{"unavailable", engine.Fault{Status: 503}, true},
		{"gateway timeout", engine.Fault{Status: 504}, true},
		{"no answer", engine.Fault{Close: true}, true},
		{"an answer that is cut", engine.Fault{CutAfterBytes: at(5)}, true},
		{"no HTTP", engine.Fault{Malformed: engine.GarbledHead}, true},
		{"bad request", engine.Fault{Status: 400}, false},
		{"unauthorized", engine.Fault{Status: 401}, false},
		{"forbidden", engine.Fault{Status: 403}, false},
		{"not found", engine.Fault{Status: 404}, false},
		{"conflict", engine.Fault{Status: 409}, false},
		{"too large", engine.Fault{Status: 413}, false},
		{"unprocessable", engine.Fault{Status: 422}, false},
		{"not implemented", engine.Fault{Status: 501}, false},
		{"a status that nobody knows", engine.Fault{Status: 599}, false},
		{"a redirect", engine.Fault{Status: 307}, false},
		{"a good one", engine.Fault{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, nil)
			r.engines[0].SetFaults(tt.fault)
			c := r.ask(chat())
			if tt.retried {
				require.Equal(t, 200, c.status)
				require.Equal(t, r.workers[1].URL(), c.head.Get("X-Smg-Routed-Worker-Id"))
				require.Len(t, r.posts(1), 1)
				require.Equal(t, small, string(r.posts(1)[0].Body), "the body is sent again as it was")
				return
			}
			require.Equal(t, max(200, tt.fault.Status), c.status)
			require.Equal(t, []int{1, 0}, r.asked())
			require.Zero(t, r.total(t, "worker_retries_total"))
		})
	}
}

// http-dataplane.md, section 10, and DECISIONS 1 and 32: how often, and where.
func TestRetryEndsWithTheLastAnswer(t *testing.T) {
	unavailable, broken, busy := engine.Fault{Status: 503}, engine.Fault{Status: 500}, engine.Fault{Status: 429}
	tests := []struct {
		name     string
		attempts int
		faults   []engine.Fault
		status   int
		asked    []int
		retries  int
	}{
		{"attempts include the first", 2, []engine.Fault{unavailable}, 503, []int{2}, 1},
		{"five attempts with one worker", 5, []engine.Fault{unavailable}, 503, []int{5}, 4},
		{"one attempt is no retry", 1, []engine.Fault{unavailable, {}}, 503, []int{1, 0}, 0},
		{"everyone is tried before anyone again", 3, []engine.Fault{unavailable, unavailable, unavailable}, 503, []int{1, 1, 1}, 2},
		{"an internal error is not tried again where it was", 5, []engine.Fault{broken}, 500, []int{1}, 0},
		{"an internal error of every worker", 5, []engine.Fault{broken, broken}, 500, []int{1, 1}, 1},
		{"an internal error of the last untried worker ends it", 5, []engine.Fault{unavailable, broken}, 500, []int{1, 1}, 1},
		{"a worker at its capacity, and another one", 5, []engine.Fault{busy, {}}, 200, []int{1, 1}, 1},
		{"a failure that passes", 5, []engine.Fault{{Status: 503, Count: 2}}, 200, []int{3}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, len(tt.faults), attempts(tt.attempts))
			for i, f := range tt.faults {
				r.engines[i].SetFaults(f)
			}
			require.Equal(t, tt.status, r.ask(chat()).status)
			require.Equal(t, tt.asked, r.asked())
			require.Equal(t, tt.retries, r.total(t, "worker_retries_total"))
			for _, w := range r.workers {
				require.LessOrEqual(t, w.Breaker().ConsecutiveFailures(), int64(1), "section 9.4: one failure of a worker in a request")
			}
		})
	}
}

// http-dataplane.md, section 10: "the last response is returned verbatim (status, headers, body)".
func TestRetryGivesTheLastAnswerAsItCame(t *testing.T) {
	r := newRig(t, 1, attempts(2))
	r.engines[0].SetFaults(engine.Fault{
		Status: 503, Body: `{"detail":"warming up"}`, Headers: engine.Headers{"X-Engine: a", "X-Engine: b", "X-SMG-Error-Code: evil"}, RetryAfter: "0",
	})
	c := r.ask(chat())
	require.Equal(t, 503, c.status)
	require.Equal(t, `{"detail":"warming up"}`, c.got.String())
	require.EqualValues(t, c.got.Len(), c.declared)
	require.Equal(t, []string{"a", "b"}, c.head.Values("X-Engine"))
	require.Equal(t, "0", c.head.Get("Retry-After"))
	require.Empty(t, c.code(), "the gateway's own header is never a worker's")
	require.Equal(t, r.workers[0].URL(), c.head.Get("X-Smg-Routed-Worker-Id"))
}

// DESIGN, "Errors and retries": at most 1 MiB of an answer is held back; a longer one is relayed, and ends the attempts.
func TestRetryEndsWithAnAnswerThatIsTooLongToHold(t *testing.T) {
	long := `"` + strings.Repeat("x", 1<<20) + `"`
	r := newRig(t, 2, nil)
	r.engines[0].SetFaults(engine.Fault{Status: 503, Body: engine.Text(long)})
	c := r.ask(chat())
	require.Equal(t, 503, c.status)
	require.Equal(t, len(long), c.got.Len())
	require.False(t, c.aborted)
	require.Equal(t, []int{1, 0}, r.asked())
}

// http-dataplane.md, sections 4 and 10: one attempt for a body that is not kept, and none behind the first byte of an answer.
func TestRetryLeavesAloneWhatCannotBeRepeated(t *testing.T) {
	tests := []struct {
		name string
		with func(*rigging)
		ask  func(r *rig) *caller
	}{
		{"a stream that has begun", nil, func(r *rig) *caller {
			r.engines[0].SetFaults(engine.Fault{CutAfterEvents: at(1)})
			return r.ask(post(chatPath, stream))
		}},
		{"a body that is streamed", func(s *rigging) { s.buffering.RetriedBytes = 10 }, func(r *rig) *caller {
			r.engines[0].SetFaults(engine.Fault{Status: 503})
			return r.ask(chat())
		}},
		{"a request whose time is over", func(s *rigging) { s.retry.Deadline = time.Nanosecond }, func(r *rig) *caller {
			r.engines[0].SetFaults(engine.Fault{Status: 503})
			return r.ask(chat())
		}},
		{"a shed", states("overloaded", "overloaded"), func(r *rig) *caller { return r.ask(chat()) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, tt.with)
			c := tt.ask(r)
			require.NotZero(t, c.status)
			require.Zero(t, r.asked()[1], "the second worker is never asked")
			require.LessOrEqual(t, r.asked()[0], 1)
			require.Zero(t, r.total(t, "worker_retries_total"))
		})
	}
}

// http-dataplane.md, section 10: "the only worker's breaker is open", and DECISIONS 30.
func TestRetryWaitsForAWorkerToComeBack(t *testing.T) {
	r := newRig(t, 1, states("open"))
	c := r.ask(chat())
	require.Equal(t, 503, c.status)
	require.Equal(t, "no_available_workers", c.code())
	require.Equal(t, "1", c.head.Get("Retry-After"))
	require.Contains(t, c.got.String(), "All 1 workers are unavailable (circuit breaker open: 1)")
	require.Equal(t, []int{0}, r.asked())
	require.Equal(t, 4, r.total(t, "worker_retries_total"), "all five attempts were made")

	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.Before("candidates", pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			if x.Number == 3 {
				r.workers[0].Breaker().Reset()
			}
			return next(x)
		}))
	})
	require.Equal(t, 200, r.ask(chat()).status, "selection is made anew for each attempt")
}

// http-dataplane.md, section 10: the checks of the backoff, n from the first retry on.
func TestBackoffGrowsUpToItsCap(t *testing.T) {
	all := func(values ...int) (all []time.Duration) {
		for _, v := range values {
			all = append(all, ms(v))
		}
		return all
	}
	tests := []struct {
		name string
		with RetrySettings
		want []time.Duration
	}{
		{
			"defaults without jitter",
			RetrySettings{InitialBackoff: 50 * time.Millisecond, MaxBackoff: 30 * time.Second, Multiplier: 1.5},
			all(50, 75, 112, 168),
		},
		{
			"a cap",
			RetrySettings{InitialBackoff: 100 * time.Millisecond, MaxBackoff: 250 * time.Millisecond, Multiplier: 2},
			all(100, 200, 250, 250),
		},
		{
			"no growth",
			RetrySettings{InitialBackoff: 7 * time.Millisecond, MaxBackoff: time.Second, Multiplier: 1},
			all(7, 7, 7, 7),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &retry{RetrySettings: tt.with}
			for i, want := range tt.want {
				require.Equal(t, want, r.backoff(i+1))
			}
			require.LessOrEqual(t, r.backoff(5000), tt.with.MaxBackoff, "a power that no number holds")
		})
	}
}

// http-dataplane.md, section 10: the windows of the default jitter. The cap comes before it.
func TestBackoffIsSpreadByJitter(t *testing.T) {
	r := &retry{RetrySettings: DefaultRetrySettings()}
	for i, window := range [][2]int64{{40, 60}, {60, 90}, {90, 134}, {134, 202}} {
		low, high := int64(1<<62), int64(0)
		for range 2000 {
			ms := r.backoff(i + 1).Milliseconds()
			low, high = min(low, ms), max(high, ms)
		}
		require.GreaterOrEqual(t, low, window[0])
		require.LessOrEqual(t, high, window[1])
		middle := (window[0] + window[1]) / 2
		require.Less(t, low, middle-(middle-window[0])/2, "the window is used")
		require.Greater(t, high, middle+(window[1]-middle)/2)
	}
	r.MaxBackoff, r.Jitter = 50*time.Millisecond, 1
	for range 2000 {
		require.LessOrEqual(t, r.backoff(9), 100*time.Millisecond)
		require.GreaterOrEqual(t, r.backoff(9), time.Duration(0))
	}
}

// sum is what a histogram has observed in all.
func (r *rig) sum(t testing.TB, family string) (sum float64) {
	t.Helper()
	families, err := r.metrics.Registry().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == family {
			for _, m := range f.GetMetric() {
				sum += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return sum
}

// A client that has left before the backoff is not waited for, and no worker is asked for its sake.
func TestRetryStopsForAClientThatHasLeft(t *testing.T) {
	r := newRig(t, 1, func(s *rigging) {
		s.retry.InitialBackoff, s.retry.MaxBackoff, s.retry.Deadline = time.Hour, time.Hour, 0
	})
	r.engines[0].SetFaults(engine.Fault{Status: 503})
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.After("retry", pipeline.StageFunc("act", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			err := next(x)
			x.Client.(*caller).leave()
			return err
		}))
	})
	c := chat()
	require.ErrorIs(t, r.Serve(c), pipeline.ErrClientGone)
	require.Equal(t, []int{1}, r.asked())
	require.Zero(t, c.status)
}

// http-dataplane.md, section 10, per-model override: whose settings hold for an attempt.
func TestTheModelOfAnAttemptIsThatOfItsWorker(t *testing.T) {
	settings := workers.DefaultSettings()
	m1, m2 := newWorker(t, "http://a:1", "m1", settings), newWorker(t, "http://b:1", "m2", settings)
	every := newWorker(t, "http://c:1", "", settings)
	tests := []struct {
		name   string
		asked  string
		chosen *workers.Worker
		pool   []*workers.Worker
		model  string
		one    bool
	}{
		{"a worker of the model was chosen", "m1", m1, []*workers.Worker{m1}, "m1", true},
		{"no model is named", "", m2, []*workers.Worker{m1, m2}, "m2", true},
		{"a worker of every model was chosen", "m9", every, []*workers.Worker{every}, "", true},
		{"nobody of a model was chosen", "m1", nil, []*workers.Worker{m1, m1}, "m1", true},
		{"nobody of every model was chosen", "m9", nil, []*workers.Worker{every}, "", true},
		{"nobody of several models was chosen", "", nil, []*workers.Worker{m1, m2}, "", false},
		{"nobody is there", "m1", nil, nil, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := &pipeline.Exchange{Model: tt.asked}
			x.Pool = workers.ListOf(tt.pool...)
			if tt.chosen != nil {
				x.Legs.Add(tt.chosen, workers.Regular)
			}
			own, asked := &RetrySettings{MaxAttempts: 7}, []string(nil)
			r := &retry{}
			r.ForModel = func(model string) *RetrySettings { asked = append(asked, model); return own }
			if got := r.settings(x); !tt.one {
				require.Same(t, &r.RetrySettings, got)
				require.Empty(t, asked)
				return
			}
			require.Equal(t, []string{tt.model}, asked)
			require.Same(t, own, r.settings(x))
		})
	}
}
