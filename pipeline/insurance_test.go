package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// fate is how a request is meant to end.
type fate int

const (
	well      fate = iota // answered
	refused               // an error before anything is written
	crashed               // a panic before anything is written
	cut                   // a panic behind the head
	abandoned             // the client leaves
	fates
)

// client32 is one of many clients. over is closed when its response is over: detached work waits for that.
type client32 struct {
	memory
	fate fate
	over chan struct{}
}

var errRefused = &pipeline.Error{Status: 503, Code: "refused", Message: "Refused"}

// pair is a stage with parallel legs: encode and prefill run at once, decode is relayed. The encode leg ends when its answer
// has been read, the prefill leg is handed over and outlives the response.
func pair(x *pipeline.Exchange, _ pipeline.Next) error {
	c := x.Client.(*client32)
	over := c.over
	var both sync.WaitGroup
	both.Go(x.Legs.At(0).End)
	both.Go(func() {
		x.Detach(x.Legs.At(1), time.Minute, func(ctx context.Context) error {
			select {
			case <-over:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	defer both.Wait() // before the legs may be used again, however this ends
	switch c.fate {
	case refused:
		return errRefused
	case crashed:
		panic("crashed")
	case cut:
		_ = say(x, "hel")
		panic("cut")
	case abandoned:
		return pipeline.ErrClientGone
	}
	return say(x, "hello")
}

// expected is what the client of each fate gets.
var expected = map[fate][]string{
	well: {"head 200 length 5", "body hello"},
	refused: {
		"head 503 length 83", "field Content-Type: application/json", "field X-SMG-Error-Code: refused",
		`body {"error":{"message":"Refused","type":"server_error","param":null,"code":"refused"}}`,
	},
	crashed:   internal,
	cut:       {"head 200 length 3", "body hel", "abort"},
	abandoned: {"abort"},
}

// storm is what the test of the whole shares between its requests.
type storm struct {
	registry *workers.Registry
	early    atomic.Int64 // requests that met a dependency which had been stopped already
	negative atomic.Int64 // counts below 0 that somebody saw
	sent     atomic.Int64
}

// version is a chain with a dependency of its own, beside one that all versions share.
func (s *storm) version(t testing.TB, shared *background) (*pipeline.Chain, *background) {
	t.Helper()
	var stopped atomic.Bool
	own := &background{name: "own", run: func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		stopped.Store(true)
		return nil
	}}
	return chain(t, route,
		stage("witness", func(x *pipeline.Exchange, next pipeline.Next) error {
			defer func() {
				if stopped.Load() {
					s.early.Add(1)
				}
			}()
			return next(x)
		}),
		uses("user", shared, own),
		pipeline.StageFunc("policy", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}}, s.choose),
		counting(),
		stage("pair", pair),
	), own
}

func (s *storm) choose(x *pipeline.Exchange, next pipeline.Next) error {
	pool := s.registry.Pool("", workers.Regular, s.registry.All()[0].Mode())
	for range pipeline.MaxLegs {
		w := pool.At(rand.IntN(pool.Len()))
		if w.InFlight() < 0 {
			s.negative.Add(1)
		}
		x.Legs.Add(w, workers.Regular)
	}
	s.sent.Add(pipeline.MaxLegs)
	return next(x)
}

// request is one request of a random fate. It returns what was wrong with it, "" if nothing was.
func (s *storm) request(rt *pipeline.Runtime) string {
	c := &client32{fate: fate(rand.IntN(int(fates))), over: make(chan struct{})}
	defer close(c.over)
	ok, err := rt.Handle(route, c)
	switch {
	case !ok:
		return "it was lost"
	case (c.fate == well) != (err == nil):
		return fmt.Sprintf("fate %d ended with %v", c.fate, err)
	case fmt.Sprint(c.got) != fmt.Sprint(expected[c.fate]):
		return fmt.Sprintf("fate %d got %q", c.fate, c.got)
	}
	return ""
}

// DESIGN.md, sections 1 and 3: however requests end, and however chains are swapped meanwhile, every count is right, no
// request is lost, and no dependency stops before the last request that relies on it.
func TestRequestsSurviveSwapsAndCountsReturnToZero(t *testing.T) {
	const clients, swaps, atLeast = 32, 50, 20
	s := &storm{registry: workers.NewRegistry(fleet(t, 5)...)}
	shared := &background{name: "shared"}
	rt := quiet()
	var owns []*background
	serve := func() {
		c, own := s.version(t, shared)
		owns = append(owns, own)
		require.NoError(t, rt.Serve(c))
	}
	serve()

	var swapped atomic.Bool
	var all sync.WaitGroup
	var handled atomic.Int64
	wrong := make(chan string, clients)
	for range clients {
		all.Go(func() {
			for n := 0; n < atLeast || !swapped.Load(); n++ {
				if fault := s.request(rt); fault != "" {
					wrong <- fault
					return
				}
				handled.Add(1)
			}
		})
	}
	for i := range swaps {
		serve()
		seen := handled.Load()
		eventually(t, fmt.Sprintf("requests go on after swap %d", i+1), func() bool { return handled.Load() > seen || len(wrong) > 0 })
	}
	swapped.Store(true)
	all.Wait()
	rt.Stop(t.Context())
	close(wrong)
	for fault := range wrong {
		t.Error(fault)
	}
	s.verify(t, append(owns, shared))
	require.EqualValues(t, 1, shared.runs.Load(), "what all versions share never stops in between")
}

// verify looks at every counter when everything is over.
func (s *storm) verify(t *testing.T, deps []*background) {
	t.Helper()
	var sent int64
	for _, w := range s.registry.All() {
		require.Zero(t, w.InFlight(), w.URL())
		sent += w.Sent()
	}
	require.Equal(t, s.sent.Load(), sent)
	require.Zero(t, s.early.Load(), "requests whose dependency was stopped too early")
	require.Zero(t, s.negative.Load())
	for _, d := range deps {
		eventually(t, d.name+" has stopped", func() bool { return d.running.Load() == 0 })
	}
}
