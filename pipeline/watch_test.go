package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// moments notes what it is told.
type moments struct {
	name string
	told *[]string
}

func (m *moments) Head(x *pipeline.Exchange, leg *pipeline.Leg, status int) {
	*m.told = append(*m.told, fmt.Sprintf("%s: head %d of attempt %d", m.name, status, x.Number))
}

func (m *moments) FirstByte(x *pipeline.Exchange, _ *pipeline.Leg) {
	*m.told = append(*m.told, fmt.Sprintf("%s: first byte of attempt %d", m.name, x.Number))
}

// watching is a stage that asks for the moments.
func watching(name string, told *[]string) pipeline.Stage {
	return stage(name, func(x *pipeline.Exchange, next pipeline.Next) error {
		x.Watch(&moments{name, told})
		return next(x)
	})
}

// twice is a stage that makes two attempts.
func twice() pipeline.Stage {
	return stage("retry", func(x *pipeline.Exchange, next pipeline.Next) error {
		x.BeginAttempt()
		_ = next(x)
		x.BeginAttempt()
		return next(x)
	})
}

// telling is a stage that forwards: the first attempt fails behind the head.
func telling(w *workers.Worker) pipeline.Stage {
	return stage("forward", func(x *pipeline.Exchange, _ pipeline.Next) error {
		leg := x.Legs.Add(w, workers.Regular)
		if x.Number == 1 {
			x.TellHead(leg, 503)
			return errBrokenPipe
		}
		x.TellHead(leg, 200)
		x.TellFirstByte(leg)
		return say(x, "hi")
	})
}

// DESIGN.md, section 3, "Moments".
func TestMomentsAreToldToThoseWhoAsked(t *testing.T) {
	w := fleet(t, 1)[0]
	var told []string
	c := chain(t, route, watching("request", &told), twice(), watching("attempt", &told), telling(w))
	for range 2 { // the second request hears nothing of the first
		told = nil
		require.NoError(t, c.Serve(&memory{}))
		require.Equal(t, []string{
			"request: head 503 of attempt 1", "attempt: head 503 of attempt 1",
			"request: head 200 of attempt 2", "attempt: head 200 of attempt 2", // once: the first attempt's is not told
			"request: first byte of attempt 2", "attempt: first byte of attempt 2",
		}, told)
	}

	told = nil
	require.NoError(t, chain(t, route, watching("request", &told), telling(w)).Serve(&memory{}))
	require.Equal(t, []string{"request: head 200 of attempt 0", "request: first byte of attempt 0"}, told, "without attempts")
}

// DESIGN.md, section 3, "Moments": no allocation.
func TestMomentsCostNoAllocation(t *testing.T) {
	x, w := &pipeline.Exchange{}, uncurious{}
	once := func() {
		x.Watch(w)
		x.BeginAttempt()
		x.Watch(w)
		x.TellHead(nil, 200)
		x.TellFirstByte(nil)
		x.Reset()
	}
	once()
	require.Zero(t, testing.AllocsPerRun(100, once))
}

type uncurious struct{}

func (uncurious) Head(*pipeline.Exchange, *pipeline.Leg, int) {}
func (uncurious) FirstByte(*pipeline.Exchange, *pipeline.Leg) {}

// DESIGN.md, section 3, "Demand": an atomic set that live policies raise and drop.
func TestDemandIsWhatLivePoliciesRead(t *testing.T) {
	var d pipeline.Demand
	seen := func() [3]bool { return [3]bool{d.Text(), d.Tokens(), d.Loads()} }
	require.Equal(t, [3]bool{}, seen())
	d.Raise(pipeline.WantText | pipeline.WantLoads)
	d.Raise(pipeline.WantText)
	require.Equal(t, [3]bool{true, false, true}, seen())
	d.Drop(pipeline.WantText | pipeline.WantLoads)
	require.Equal(t, [3]bool{true, false, false}, seen(), "another policy still reads the text")
	d.Drop(pipeline.WantText)
	d.Raise(pipeline.WantTokens)
	require.Equal(t, [3]bool{false, true, false}, seen())
}

// policies.md, section 12.3: a policy may take the text of bodies that are read anyway, without making anybody read one.
func TestTextIfReadIsWantedByThoseWhoWantText(t *testing.T) {
	var d pipeline.Demand
	require.False(t, d.TextIfRead())
	d.Raise(pipeline.WantTextIfRead)
	require.True(t, d.TextIfRead())
	require.False(t, d.Text())
	d.Drop(pipeline.WantTextIfRead)
	require.False(t, d.TextIfRead())
	d.Raise(pipeline.WantText)
	require.True(t, d.TextIfRead())
}
