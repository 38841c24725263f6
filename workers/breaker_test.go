package workers

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// breakerScript plays answers (statuses), waits (+900ms) and resets, and returns the state after each that changed or was asked
// for with "?".
func breakerScript(w *Worker, script string) string {
	var said []string
	w.OnBreaker(func(_ *Worker, from, to BreakerState) { said = append(said, fmt.Sprintf("%s>%s", from, to)) })
	for step := range strings.FieldsSeq(script) {
		switch {
		case step == "?":
			said = append(said, w.Breaker().State().String())
		case step == "reset":
			w.Breaker().Reset()
		case step == "readmit":
			said = append(said, strconv.FormatBool(w.Breaker().Readmit()))
		case strings.HasPrefix(step, "+"):
			d, _ := time.ParseDuration(step[1:])
			time.Sleep(d)
		default:
			code, _ := strconv.Atoi(step)
			switch w.Outcome(code) {
			case Faulted:
				w.Breaker().Failure()
			case Succeeded:
				w.Breaker().Success()
			case Uncounted:
			}
		}
	}
	b := w.Breaker()
	return strings.Join(append(said, fmt.Sprintf("cf=%d cs=%d", b.ConsecutiveFailures(), b.ConsecutiveSuccesses())), " ")
}

// workers.md section 9; failure threshold 3, success threshold 2, time-out 1 s
func TestBreakerScripts(t *testing.T) {
	tests := []struct{ name, block, script, want string }{
		{"failures in a row open it", ``, "500 500 ? 500 ?", "closed closed>open open cf=3 cs=0"},
		{"a success between begins anew", ``, "500 500 200 500 500 ?", "closed cf=2 cs=0"},
		{"a 429 neither counts nor resets", ``, "500 429 500 429 500", "closed>open cf=3 cs=0"},
		{"a 404 is a success", ``, "500 500 404 501 ?", "closed cf=0 cs=2"},
		{"it stays open until the time-out", ``, "500 500 500 +999ms ? +1ms ?", "closed>open open open>half_open half_open cf=0 cs=0"},
		{"successes close it", ``, "500 500 500 +1s ? 200 ? 200 ?", "closed>open open>half_open half_open half_open half_open>closed closed cf=0 cs=0"},
		{"a failure opens it anew, for the whole time-out", ``, "500 500 500 +1s ? 200 503 +999ms ? +1ms ?", "closed>open open>half_open half_open half_open>open open open>half_open half_open cf=0 cs=0"},
		{"a 429 in half-open changes nothing", ``, "500 500 500 +1s ? 200 429 ?", "closed>open open>half_open half_open half_open cf=0 cs=1"},
		{"late answers in the open state do not lengthen it", ``, "500 500 500 +900ms 500 200 500 +100ms ?", "closed>open open>half_open half_open cf=0 cs=0"},
		{"by hand", ``, "500 500 500 reset ? 500 500 ?", "closed>open open>closed closed closed cf=2 cs=0"},
		{"trials before the time-out", ``, "500 500 500 readmit ? 200 200 ?", "closed>open open>half_open true half_open half_open>closed closed cf=0 cs=0"},
		{"a trial that fails opens it for the whole time-out", ``, "500 500 500 +500ms readmit 500 +999ms ? +1ms ?", "closed>open open>half_open true half_open>open open open>half_open half_open cf=0 cs=0"},
		{"only one that is open lets trials through", ``, "500 500 readmit ? 500 +1s readmit readmit ?", "false closed closed>open open>half_open false false half_open cf=0 cs=0"},
		{"switched off it counts and never opens", `,"disable_circuit_breaker":true`, "500 500 500 500 500 ?", "closed cf=5 cs=0"},
		{"a capacity status says nothing", `,"capacity_status_codes":[429,503]`, "503 503 503 503 ?", "closed cf=0 cs=0"},
		{"a list that is set replaces the default", `,"capacity_status_codes":[503]`, "429 429 429", "closed>open cf=3 cs=0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := ParseSpec([]byte(`{"url":"http://w:1","resilience":{"cb_failure_threshold":3,"cb_success_threshold":2,"cb_timeout_secs":1` + tt.block + `}}`))
				require.NoError(t, err)
				require.Equal(t, tt.want, breakerScript(made(t, s), tt.script))
			})
		})
	}
}

// DECISIONS 55
func TestHalfOpenTrialsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(BreakerSettings{FailureThreshold: 1, SuccessThreshold: 2, Timeout: time.Second}, nil)
		_, ok := b.Take()
		require.True(t, ok, "a closed breaker lets everything pass")
		b.Failure()
		_, ok = b.Take()
		require.False(t, ok, "an open one nothing")
		require.False(t, b.Admits())

		time.Sleep(time.Second)
		require.True(t, b.Admits())
		first, ok := b.Take()
		require.True(t, ok)
		_, ok = b.Take()
		require.True(t, ok)
		require.False(t, b.Admits(), "all trials are taken")
		_, ok = b.Take()
		require.False(t, ok)

		b.Release(first)
		require.True(t, b.Admits(), "one was given back")
		late, ok := b.Take()
		require.True(t, ok)

		b.Failure()
		time.Sleep(time.Second)
		require.True(t, b.Admits())
		_, ok = b.Take()
		require.True(t, ok)
		b.Release(late) // of the period before: gives nothing back
		_, ok = b.Take()
		require.True(t, ok)
		require.False(t, b.Admits())
	})
}

// workers.md section 9
func TestBreakerOpensOnceHoweverManyFail(t *testing.T) {
	w := made(t, NewSpec("http://w:1"))
	var moves atomic.Int64
	w.OnBreaker(func(*Worker, BreakerState, BreakerState) { moves.Add(1) })
	var all sync.WaitGroup
	for range 1000 {
		all.Go(w.Breaker().Failure)
	}
	all.Wait()
	require.EqualValues(t, 1, moves.Load())
	require.EqualValues(t, 1000, w.Breaker().ConsecutiveFailures())
}

// workers.md section 9: the move to half-open is counted once, however many look
func TestBreakerRipensOnceHoweverManyLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var moves atomic.Int64
		b := newBreaker(BreakerSettings{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Second}, func(_, to BreakerState) {
			if to == BreakerHalfOpen {
				moves.Add(1)
			}
		})
		b.Failure()
		time.Sleep(time.Second)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { b.State(); b.Admits() })
		}
		all.Wait()
		require.EqualValues(t, 1, moves.Load())
	})
}
