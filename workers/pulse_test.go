package workers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Issue: a stall of the gateway itself is never counted as a worker's failure
func TestPulseNoticesStalls(t *testing.T) {
	tests := []struct {
		name  string
		beats []int // in milliseconds
		since int
		now   int
		want  bool
	}{
		{"it beats", []int{0, 250, 500, 750, 1000}, 100, 1000, false},
		{"it beats a little late, as on a busy machine", []int{0, 300, 700, 1100}, 100, 1200, false},
		{"a beat came late while the probe was on its way", []int{0, 250, 3000, 3250}, 100, 3300, true},
		{"a beat came late, and the probe began in the middle of that", []int{0, 250, 3000, 3250}, 2000, 3300, true},
		{"a beat came late before the probe began", []int{0, 250, 3000, 3250, 3500}, 3100, 3600, false},
		{"the beat that would tell has not come yet", []int{0, 250}, 100, 5000, true},
		{"it does not beat: there is nothing to tell", nil, 100, 5000, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, zero := newPulse(), time.Now()
			at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
			for i, ms := range tt.beats {
				if i == 0 {
					p.begin(at(ms))
					continue
				}
				p.beat(at(ms))
			}
			require.Equal(t, tt.want, p.stalled(at(tt.since), at(tt.now)))
		})
	}
}

func TestPulseBeatsWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse()
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		go p.run(ctx)
		time.Sleep(10*time.Second + pulsePeriod/2)
		require.False(t, p.stalled(begun, time.Now()))
		p.mu.Lock()
		require.Equal(t, begun.Add(10*time.Second), p.last)
		p.mu.Unlock()
		cancel()
		synctest.Wait()
		time.Sleep(time.Minute)
		require.False(t, p.stalled(begun, time.Now()), "the time in which it is off is no stall")
	})
}
