package pipeline_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// background is a dependency that counts its runs. Without a function of its own it is ready at once and works until it is
// stopped.
type background struct {
	name  string
	below []pipeline.Dependency
	run   func(ctx context.Context, ready func()) error

	runs, running, most atomic.Int64 // ever, now, and at once
}

func (b *background) Name() string                { return b.name }
func (b *background) Uses() []pipeline.Dependency { return b.below }

func (b *background) Run(ctx context.Context, ready func()) error {
	b.runs.Add(1)
	b.most.Store(max(b.most.Load(), b.running.Add(1)))
	defer b.running.Add(-1)
	if b.run != nil {
		return b.run(ctx, ready)
	}
	ready()
	<-ctx.Done()
	return ctx.Err()
}

// served serves a chain of one stage that uses dependencies, and of one that answers with a text.
func served(t testing.TB, text string, deps ...pipeline.Dependency) *pipeline.Chain {
	t.Helper()
	return chain(t, route, uses("user", deps...), answers("end", text))
}

// ask takes a request through a runtime and returns the body of the answer.
func ask(t testing.TB, rt *pipeline.Runtime, route string) string {
	t.Helper()
	m := &memory{}
	ok, err := rt.Handle(route, m)
	require.NoError(t, err)
	require.True(t, ok)
	return m.body()
}

// DESIGN.md, section 3, "Running": the same value once, and only if some served chain uses it.
func TestADependencyRunsOnceForAllWhoUseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, own, unused := &background{name: "shared"}, &background{name: "own"}, &background{name: "unused"}
		full := chain(t, "POST /a", uses("loads", shared), uses("events", shared, own), uses("spare", unused), answers("end", "a"))
		lean, err := full.Without("spare")
		require.NoError(t, err)
		rt := quiet()
		require.NoError(t, rt.Serve(lean, chain(t, "POST /b", uses("loads", shared), answers("end", "b")), chain(t, "POST /c", answers("end", "c"))))
		for _, name := range []string{"a", "b", "c"} {
			require.Equal(t, name, ask(t, rt, "POST /"+name))
			require.Equal(t, "POST /"+name, rt.Chain("POST /"+name).Route())
		}
		synctest.Wait()
		require.EqualValues(t, 1, shared.runs.Load())
		require.EqualValues(t, 1, own.runs.Load())
		require.Zero(t, unused.runs.Load(), "you pay for what you assemble")

		rt.Stop(t.Context())
		require.Zero(t, shared.running.Load()+own.running.Load())
	})
}

// DESIGN.md, section 3, "Running".
func TestARouteThatNobodyServes(t *testing.T) {
	rt := quiet()
	m := &memory{}
	ok, err := rt.Handle(route, m)
	require.NoError(t, err)
	require.False(t, ok)
	require.Empty(t, m.got)
	require.Nil(t, rt.Chain(route))
	require.True(t, rt.Ready(), "nothing is waited for")
	rt.Stop(t.Context())
}

// DESIGN.md, section 3, "Running": an error leaves everything as it was.
func TestServeRefusesWhatDoesNotFit(t *testing.T) {
	b := &background{name: "b"}
	tests := []struct {
		name   string
		chains func(t *testing.T, spare *background) []*pipeline.Chain
		want   string
	}{
		{"two values of one name in two chains", func(t *testing.T, spare *background) []*pipeline.Chain {
			return []*pipeline.Chain{chain(t, "POST /a", uses("u", spare)), chain(t, "POST /b", uses("u", &background{name: "spare"}))}
		}, `two dependencies are named "spare"; chains that are served together share one value`},
		{"two values of one name, one of them below another dependency", func(t *testing.T, spare *background) []*pipeline.Chain {
			above := &background{name: "above", below: []pipeline.Dependency{&background{name: "spare"}}}
			return []*pipeline.Chain{chain(t, "POST /a", uses("u", spare, above))}
		}, `two dependencies are named "spare"; chains that are served together share one value`},
		{"two chains for one route", func(t *testing.T, spare *background) []*pipeline.Chain {
			return []*pipeline.Chain{served(t, "1", spare), served(t, "2", spare)}
		}, "two chains for the route POST /generate"},
		{"no chain", func(t *testing.T, spare *background) []*pipeline.Chain {
			return []*pipeline.Chain{served(t, "1", spare), nil}
		}, "chain 2 is nil"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spare := &background{name: "spare"}
				before := &background{name: "before", below: []pipeline.Dependency{b}}
				rt := quiet()
				require.NoError(t, rt.Serve(served(t, "as before", before)))
				require.EqualError(t, rt.Serve(tt.chains(t, spare)...), tt.want)
				synctest.Wait()
				require.Equal(t, "as before", ask(t, rt, route))
				require.Nil(t, rt.Chain("POST /a"))
				require.Zero(t, spare.runs.Load())
				require.EqualValues(t, 1, before.runs.Load())
				require.EqualValues(t, 1, before.running.Load())
				rt.Stop(t.Context())
			})
		})
	}
}

// DESIGN.md, section 3: a dependency may have dependencies of its own.
func TestADependencyBringsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		low := &background{name: "low"}
		mid := &background{name: "mid", below: []pipeline.Dependency{low}}
		top := &background{name: "top", below: []pipeline.Dependency{mid, low}}
		low.below = []pipeline.Dependency{top} // a circle runs once as well
		rt := quiet()
		require.NoError(t, rt.Serve(served(t, "", top)))
		synctest.Wait()
		for _, d := range []*background{low, mid, top} {
			require.EqualValues(t, 1, d.runs.Load(), d.name)
		}
		require.NoError(t, rt.Serve(served(t, "", &background{name: "other"})))
		synctest.Wait()
		require.Zero(t, low.running.Load()+mid.running.Load()+top.running.Load())
		rt.Stop(t.Context())
	})
}

// DESIGN.md, section 3, "Running": it restarts one that dies, with backoff, and a panic in one never ends the process.
func TestADependencyThatDiesIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began []time.Duration
		zero := time.Now()
		d := &background{name: "frail"}
		d.run = func(ctx context.Context, ready func()) error {
			began = append(began, time.Since(zero))
			switch len(began) {
			case 1:
				return errors.New("lost the connection")
			case 2:
				panic("out of range")
			case 12: // it had worked for a while: the next pause is short again
				time.Sleep(time.Minute)
				return errors.New("lost the connection")
			case 13:
				ready()
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.New("still no connection")
		}
		rt := quiet()
		require.NoError(t, rt.Serve(served(t, "hi", d)))
		time.Sleep(10 * time.Minute) // of the bubble's own clock
		synctest.Wait()
		require.True(t, rt.Ready())
		const ms, s = time.Millisecond, time.Second
		var pauses []time.Duration
		for i := range began[1:] {
			pauses = append(pauses, began[i+1]-began[i])
		}
		require.Equal(t, []time.Duration{
			100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 12800 * ms, 25600 * ms, 30 * s, 30 * s,
			time.Minute + 100*ms,
		}, pauses)
		rt.Stop(t.Context())
		require.Zero(t, d.running.Load())
	})
}

// DESIGN.md, section 3, "Running": one that is between two runs is stopped as well.
func TestADependencyThatWaitsForItsNextRunIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &background{name: "frail", run: func(context.Context, func()) error { return errors.New("no connection") }}
		rt := quiet()
		require.NoError(t, rt.Serve(served(t, "hi", d)))
		time.Sleep(time.Minute) // of the bubble's own clock
		runs, stopped := d.runs.Load(), time.Now()
		rt.Stop(t.Context())
		require.Zero(t, time.Since(stopped), "the next run is not waited for")
		time.Sleep(time.Hour)
		require.Equal(t, runs, d.runs.Load())
	})
}

// DESIGN.md, section 3, "Running": ready feeds /readiness and never delays listening.
func TestReadinessWaitsForEveryDependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := func(name string) (*background, chan struct{}) {
			there := make(chan struct{})
			return &background{name: name, run: func(ctx context.Context, ready func()) error {
				<-there
				ready()
				<-ctx.Done()
				return ctx.Err()
			}}, there
		}
		a, aThere := waiting("a")
		b, bThere := waiting("b")
		done := &background{name: "c", run: func(context.Context, func()) error { return nil }} // has nothing to do: is ready
		rt := quiet()
		require.NoError(t, rt.Serve(served(t, "hi", b, a, done)))
		synctest.Wait()
		require.Equal(t, "a", rt.Waiting())
		require.False(t, rt.Ready())
		require.Equal(t, "hi", ask(t, rt, route), "requests are served meanwhile")
		close(aThere)
		synctest.Wait()
		require.Equal(t, "b", rt.Waiting())
		close(bThere)
		synctest.Wait()
		require.Empty(t, rt.Waiting())
		require.True(t, rt.Ready())
		require.EqualValues(t, 1, done.runs.Load(), "it has nothing left to do")
		rt.Stop(t.Context())
	})
}

// DESIGN.md, section 3, "Legs": shutdown waits for detached work.
func TestStopWaitsForDetachedWork(t *testing.T) {
	tests := []struct {
		name   string
		limit  time.Duration // of Stop
		waited time.Duration
		cut    bool
	}{
		{"work that ends in time is waited for", time.Minute, 10 * time.Second, false},
		{"work that does not is cut", 3 * time.Second, 3 * time.Second, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, d, cut := fleet(t, 1)[0], &background{name: "d"}, false
				rt := quiet()
				require.NoError(t, rt.Serve(chain(t, route, uses("user", d), choosing(w), counting(), stage("end", func(x *pipeline.Exchange, _ pipeline.Next) error {
					x.Detach(x.Legs.Last(), time.Hour, func(ctx context.Context) error {
						select {
						case <-ctx.Done():
							cut = true
						case <-time.After(10 * time.Second):
						}
						return ctx.Err()
					})
					return say(x, "hi")
				}))))
				ask(t, rt, route)
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				began := time.Now()
				rt.Stop(ctx)
				require.Equal(t, tt.waited, time.Since(began)) // the bubble's own clock
				require.Equal(t, tt.cut, cut)
				require.Zero(t, w.InFlight())
				require.Zero(t, d.running.Load())
			})
		})
	}
}

// DESIGN.md, section 3: Stop is final.
func TestARuntimeThatWasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, w := &background{name: "d"}, fleet(t, 1)[0]
		rt := quiet()
		late := make(chan error, 1)
		require.NoError(t, rt.Serve(chain(t, route, choosing(w), counting(), stage("end", func(x *pipeline.Exchange, _ pipeline.Next) error {
			x.Detach(x.Legs.Last(), time.Hour, func(ctx context.Context) error {
				<-ctx.Done()
				late <- ctx.Err()
				return nil
			})
			return x.WriteHead(http.StatusNoContent, 0, nil)
		}))))
		rt.Stop(t.Context())
		rt.Stop(t.Context()) // once is enough, twice does no harm
		require.EqualError(t, rt.Serve(served(t, "", d)), "the runtime was stopped")
		require.Zero(t, d.runs.Load())

		_, err := rt.Handle(route, &memory{}) // a request that the server did not finish: its work gets no time
		require.NoError(t, err)
		require.ErrorIs(t, <-late, context.Canceled)
		synctest.Wait()
		require.Zero(t, w.InFlight())
	})
}
