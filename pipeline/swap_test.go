package pipeline_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// gate is a stage that keeps a request until it is opened.
type gate struct{ entered, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}), make(chan struct{})} }

func (*gate) Name() string { return "gate" }

func (g *gate) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	g.entered <- struct{}{}
	<-g.open
	return next(x)
}

// gated is a chain whose requests wait at a gate.
func gated(t testing.TB, g *gate, text string, deps ...pipeline.Dependency) *pipeline.Chain {
	t.Helper()
	return chain(t, route, uses("user", deps...), g, answers("end", text))
}

// enter starts a request and returns when it is at the gate; the channel gives the body of the answer.
func enter(t testing.TB, rt *pipeline.Runtime, g *gate) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	go func() {
		m := &memory{}
		_, _ = rt.Handle(route, m)
		answer <- m.body()
	}()
	<-g.entered
	return answer
}

// DESIGN.md, section 3, "Running": new dependencies start, routes switch, old requests finish on their old chain, then what
// nobody uses any more stops.
func TestServingAgainSwaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after, both := &background{name: "loads"}, &background{name: "loads"}, &background{name: "both"}
		g := newGate()
		rt := quiet()
		require.NoError(t, rt.Serve(gated(t, g, "old", before, both), chain(t, "POST /gone", answers("end", ""))))
		answer := enter(t, rt, g)

		require.NoError(t, rt.Serve(served(t, "new", after, both)))
		synctest.Wait()
		require.EqualValues(t, 1, after.running.Load(), "another value of the name runs beside the old one")
		require.EqualValues(t, 1, before.running.Load(), "a request is still on the old chain")
		require.Equal(t, "new", ask(t, rt, route))
		ok, _ := rt.Handle("POST /gone", &memory{})
		require.False(t, ok)

		close(g.open)
		require.Equal(t, "old", <-answer)
		synctest.Wait()
		require.Zero(t, before.running.Load())
		require.EqualValues(t, 1, after.running.Load())
		require.EqualValues(t, 1, both.running.Load())
		require.EqualValues(t, 1, both.runs.Load(), "what both use goes on")
		rt.Stop(t.Context())
		require.Zero(t, after.running.Load()+both.running.Load())
	})
}

// DESIGN.md, section 3, "Running": old requests may outlast several swaps.
func TestADependencyRunsForTheOldestRequestThatRelies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &background{name: "d"}, newGate()
		rt := quiet()
		require.NoError(t, rt.Serve(gated(t, g, "first", d)))
		answer := enter(t, rt, g)
		require.NoError(t, rt.Serve(served(t, "second", d)))
		require.NoError(t, rt.Serve(served(t, "third")))
		synctest.Wait()
		require.EqualValues(t, 1, d.running.Load(), "the second generation is over, a request of the first is not")
		require.True(t, rt.Ready())

		require.NoError(t, rt.Serve(served(t, "fourth", d))) // taken up again while it still runs
		close(g.open)
		require.Equal(t, "first", <-answer)
		synctest.Wait()
		require.EqualValues(t, 1, d.running.Load())
		require.EqualValues(t, 1, d.runs.Load(), "it was never stopped")

		require.NoError(t, rt.Serve())
		synctest.Wait()
		require.Zero(t, d.running.Load())
		require.Zero(t, rt.Running(), "what has stopped is forgotten")
		rt.Stop(t.Context())
	})
}

// DESIGN.md, section 3, "Running": the same value once, also while it takes its time to stop.
func TestADependencyNeverRunsTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tidied := make(chan struct{})
		d := &background{name: "d", run: func(ctx context.Context, ready func()) error {
			ready()
			<-ctx.Done()
			<-tidied
			return nil
		}}
		rt := quiet()
		require.NoError(t, rt.Serve(served(t, "", d)))
		require.NoError(t, rt.Serve())
		synctest.Wait() // it is stopping
		require.NoError(t, rt.Serve(served(t, "", d)))
		synctest.Wait()
		require.EqualValues(t, 1, d.runs.Load())
		require.Equal(t, "d", rt.Waiting(), "the new run is not ready, whatever the old one was")
		close(tidied)
		synctest.Wait()
		require.EqualValues(t, 2, d.runs.Load())
		require.EqualValues(t, 1, d.most.Load())
		require.Equal(t, 1, rt.Running(), "the end of the old run does not forget the new one")
		require.True(t, rt.Ready())
		rt.Stop(t.Context())
		require.Zero(t, d.running.Load())
	})
}

// DESIGN.md, section 3, "Running": Stop ends the dependencies of old generations too.
func TestStopEndsWhatOldRequestsUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, g := &background{name: "d"}, newGate()
		rt := quiet()
		require.NoError(t, rt.Serve(gated(t, g, "old", d)))
		answer := enter(t, rt, g)
		require.NoError(t, rt.Serve())
		rt.Stop(t.Context())
		require.Zero(t, d.running.Load())
		close(g.open)
		require.Equal(t, "old", <-answer)
	})
}
