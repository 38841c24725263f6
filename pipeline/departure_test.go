package pipeline_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// told counts how often it was told that a client has left.
type told struct{ times int }

func (w *told) ClientGone() { w.times++ }

func TestADepartureIsToldToThoseWhoWatch(t *testing.T) {
	var d pipeline.Departure
	var early, taken, late told
	d.Watch(&early)
	d.Watch(&taken)
	d.Unwatch(&taken)
	require.False(t, d.Gone())
	require.Equal(t, 1, d.Watching())

	d.Happen()
	d.Happen()
	d.Watch(&late)
	d.Unwatch(&late)
	require.True(t, d.Gone())
	require.Zero(t, d.Watching())
	require.Equal(t, []int{1, 0, 1}, []int{early.times, taken.times, late.times})
}

// After Unwatch nobody is being told any more: what the watcher is may be used for something else. The race detector sees to it.
func TestNobodyIsToldAfterUnwatch(t *testing.T) {
	for range 200 {
		var d pipeline.Departure
		var w told
		d.Watch(&w)
		var all sync.WaitGroup
		all.Go(d.Happen)
		d.Unwatch(&w)
		w.times++ // not locked: this is the use for something else
		all.Wait()
		require.LessOrEqual(t, w.times, 2)
	}
}
