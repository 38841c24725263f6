package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// DESIGN.md, section 3, "Legs": a leg is taken back once, however often and from wherever it is ended.
func TestALegIsCountedOnce(t *testing.T) {
	tests := []struct {
		name string
		do   func(l *pipeline.Leg)
		want int64
		sent int64
	}{
		{"begun", func(l *pipeline.Leg) { l.Begin() }, 1, 1},
		{"begun twice", func(l *pipeline.Leg) { l.Begin(); l.Begin() }, 1, 1},
		{"ended, never begun", func(l *pipeline.Leg) { l.End() }, 0, 0},
		{"begun and ended", func(l *pipeline.Leg) { l.Begin(); l.End() }, 0, 1},
		{"ended three times", func(l *pipeline.Leg) { l.Begin(); l.End(); l.End(); l.End() }, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := fleet(t, 1)[0]
			var legs pipeline.Legs
			tt.do(legs.Add(w, workers.Regular))
			require.Equal(t, tt.want, w.InFlight())
			require.Equal(t, tt.sent, w.Sent())
		})
	}
}

// DESIGN.md, section 3, "Legs". The goroutines meet in a loop first, so that in many of the rounds they come at once.
func TestALegIsCountedOnceFromManyGoroutines(t *testing.T) {
	const rounds, goroutines = 5000, 2
	w := fleet(t, 1)[0]
	for range rounds {
		var legs pipeline.Legs
		leg := legs.Add(w, workers.Regular)
		atOnce(goroutines, leg.Begin)
		require.EqualValues(t, 1, w.InFlight())
		atOnce(goroutines, leg.End)
		require.Zero(t, w.InFlight())
	}
	require.EqualValues(t, rounds, w.Sent())
}

func atOnce(n int, f func()) {
	var all sync.WaitGroup
	var met atomic.Int64
	for range n {
		all.Go(func() {
			for met.Add(1); met.Load() < int64(n); {
				runtime.Gosched()
			}
			f()
		})
	}
	all.Wait()
}

// DESIGN.md, section 3, "Legs": one ends early, the others with the request.
func TestLegsBeginAndEndTogether(t *testing.T) {
	ws := fleet(t, pipeline.MaxLegs)
	counts := func() (n [pipeline.MaxLegs]int64) {
		for i, w := range ws {
			n[i] = w.InFlight()
		}
		return n
	}
	var legs pipeline.Legs
	require.Nil(t, legs.Last())
	for i, role := range []workers.Type{workers.Encode, workers.Prefill, workers.Decode} {
		leg := legs.Add(ws[i], role)
		require.Same(t, leg, legs.Last())
		require.Same(t, leg, legs.At(i))
		require.Equal(t, role, leg.Role)
	}
	require.Equal(t, 3, legs.Len())
	legs.Begin()
	require.Equal(t, [3]int64{1, 1, 1}, counts())
	legs.At(1).End()
	require.Equal(t, [3]int64{1, 0, 1}, counts())
	legs.End()
	require.Equal(t, [3]int64{}, counts())
}

// DESIGN.md, section 1: counted right for errors, disconnects and panics alike, in every attempt.
func TestCountsAreRightHoweverARequestEnds(t *testing.T) {
	for name, h := range map[string]handle{
		"answered":       func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hi") },
		"failed":         func(*pipeline.Exchange, pipeline.Next) error { return errBrokenPipe },
		"left":           func(*pipeline.Exchange, pipeline.Next) error { return pipeline.ErrClientGone },
		"panicked":       func(*pipeline.Exchange, pipeline.Next) error { panic("secret") },
		"panicked late":  func(x *pipeline.Exchange, _ pipeline.Next) error { _ = say(x, "hi"); panic("secret") },
		"ended by hand":  func(x *pipeline.Exchange, _ pipeline.Next) error { x.Legs.Last().End(); return say(x, "hi") },
		"nobody answers": pass,
	} {
		t.Run(name, func(t *testing.T) {
			w := fleet(t, 1)[0]
			var during []int64
			c := chain(t, route, twice(), choosing(w), counting(), stage("end", func(x *pipeline.Exchange, next pipeline.Next) error {
				during = append(during, w.InFlight())
				return h(x, next)
			}))
			_ = c.Serve(&memory{})
			require.Zero(t, w.InFlight())
			require.NotEmpty(t, during)
			for _, n := range during {
				require.EqualValues(t, 1, n)
			}
		})
	}
}

// choosing is a stage that sends every request to the given workers, a leg for each.
func choosing(ws ...*workers.Worker) pipeline.Stage {
	return pipeline.StageFunc("policy", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}}, func(x *pipeline.Exchange, next pipeline.Next) error {
		for _, w := range ws {
			x.Legs.Add(w, workers.Regular)
		}
		return next(x)
	})
}

// counting is a stage that counts a request as in flight.
func counting() pipeline.Stage {
	return pipeline.StageFunc("in_flight", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}}, func(x *pipeline.Exchange, next pipeline.Next) error {
		x.Legs.Begin()
		defer x.Legs.End()
		return next(x)
	})
}

// DESIGN.md, section 3, "Legs": work that outlives the response takes its leg's count with it.
func TestDetachedWorkKeepsItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws := fleet(t, 2)
		over := make(chan struct{})
		rt := quiet()
		require.NoError(t, rt.Serve(chain(t, route, choosing(ws...), counting(), stage("pair", func(x *pipeline.Exchange, _ pipeline.Next) error {
			x.Detach(x.Legs.At(0), time.Minute, func(context.Context) error { <-over; return nil })
			x.Detach(x.Legs.At(0), time.Minute, func(context.Context) error { return nil }) // its count is gone already
			x.Legs.At(0).End()                                                              // does nothing any more
			return say(x, "hi")
		}))))
		_, err := rt.Handle(route, &memory{})
		require.NoError(t, err)
		synctest.Wait()
		require.EqualValues(t, 1, ws[0].InFlight(), "the response is over, the work is not")
		require.Zero(t, ws[1].InFlight())
		_, err = rt.Handle(route, &memory{}) // the exchange is used again; the first one's work keeps its own count
		require.NoError(t, err)
		require.EqualValues(t, 2, ws[0].InFlight())
		close(over)
		synctest.Wait()
		require.Zero(t, ws[0].InFlight())
		rt.Stop(t.Context())
	})
}

// DESIGN.md, section 3, "Legs": it is handed over with its limit in time, whether or not a runtime serves the chain.
func TestDetachedWorkGivesItsCountBack(t *testing.T) {
	const limit = time.Hour
	tests := []struct {
		name   string
		work   func(ctx context.Context) error
		before int64 // in flight a moment before the limit
	}{
		{"when its limit is over", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, 1},
		{"when it fails", func(context.Context) error { return errors.New("cut") }, 0},
		{"when it panics", func(context.Context) error { panic("secret") }, 0},
	}
	for _, tt := range tests {
		for _, served := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, served %t", tt.name, served), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, rt := fleet(t, 1)[0], quiet()
					c := chain(t, route, choosing(w), counting(), stage("pair", func(x *pipeline.Exchange, _ pipeline.Next) error {
						x.Detach(x.Legs.Last(), limit, tt.work)
						return say(x, "hi")
					}))
					if served {
						require.NoError(t, rt.Serve(c))
					}
					require.NoError(t, c.Serve(&memory{}))
					time.Sleep(limit - 1) // of the bubble's own clock
					synctest.Wait()
					require.Equal(t, tt.before, w.InFlight())
					time.Sleep(time.Nanosecond)
					synctest.Wait()
					require.Zero(t, w.InFlight())
					rt.Stop(t.Context())
				})
			})
		}
	}
}

// DECISIONS.md, row 55: a trial is taken before the request is sent, and given back when it is over.
func TestATrialIsTakenAndGivenBack(t *testing.T) {
	s := workers.DefaultSettings()
	s.Breaker = workers.BreakerSettings{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Minute}
	synctest.Test(t, func(t *testing.T) {
		w, err := workers.New(workers.NewSpec("http://127.0.0.1:30001"), s)
		require.NoError(t, err)
		var one, two pipeline.Legs
		first, second := one.Add(w, workers.Regular), two.Add(w, workers.Regular)

		require.True(t, first.TakeTrial() && second.TakeTrial(), "a closed breaker asks for no trial")
		first.ReleaseTrial()
		second.ReleaseTrial()

		w.Breaker().Failure()
		require.False(t, first.TakeTrial(), "an open breaker gives none")
		first.ReleaseTrial()

		time.Sleep(time.Minute) // of the bubble's own clock: half-open
		require.True(t, first.TakeTrial())
		require.False(t, second.TakeTrial(), "the only trial is taken")
		second.ReleaseTrial() // who has none gives none back
		require.False(t, second.TakeTrial())
		first.ReleaseTrial()
		require.True(t, second.TakeTrial())
		first.ReleaseTrial() // once, however often
		require.False(t, first.TakeTrial())
		second.ReleaseTrial()
	})
}

// policies.md, sections 1 and 14.4: a leg's routing key is counted and taken back with it, also when its count was handed over.
func TestALegsKeyIsCountedWithIt(t *testing.T) {
	w := fleet(t, 1)[0]
	var legs pipeline.Legs
	leg := legs.Add(w, workers.Regular)
	leg.Key = "K"
	leg.Begin()
	leg.Begin()
	require.Equal(t, 1, w.KeyInFlight("K"))
	leg.End()
	leg.End()
	require.Zero(t, w.KeyInFlight("K"))

	x := &pipeline.Exchange{}
	handed := x.Legs.Add(w, workers.Regular)
	handed.Key = "K"
	handed.Begin()
	release := make(chan struct{})
	x.Detach(handed, time.Minute, func(context.Context) error { <-release; return nil })
	handed.End()
	x.BeginAttempt()
	require.Empty(t, x.Legs.Add(w, workers.Regular).Key, "another leg has no key")
	require.Equal(t, 1, w.KeyInFlight("K"))
	close(release)
	require.Eventually(t, func() bool { return w.InFlight() == 0 }, time.Minute, time.Millisecond)
	require.Zero(t, w.KeyInFlight("K"))
}

// policies.md, section 11: what a policy finds that takes the header as it was sent.
func TestTheHeaderOfARoutingKey(t *testing.T) {
	for want, k := range map[string]pipeline.RoutingKey{
		"":       {},
		"K":      {Value: "K", Source: pipeline.HeaderKey},
		"K_t1":   {Value: "K", Source: pipeline.HeaderKey, Sent: "K_t1"},
		"header": {Value: "rid", Source: pipeline.RIDKey, Sent: "header"},
	} {
		require.Equal(t, want, k.Header())
	}
	require.Empty(t, pipeline.RoutingKey{Value: "rid", Source: pipeline.RIDKey}.Header())
}
