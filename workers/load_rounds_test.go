package workers

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Reports that are compared should be of the same moment: what was sent since the one counts, and what was sent since the other.
func TestASmallFleetIsAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		stop := f.start()
		for i := range 4 { // they become ready at different times
			f.wait(1700 * time.Millisecond)
			add(t, f.registry, serving(fmt.Sprintf("http://w%d", i), "m"))
		}
		f.wait(60 * time.Second)
		stop()
		first := f.times("w0")
		for i := range 4 {
			polls := f.times(fmt.Sprintf("w%d", i))
			require.Len(t, polls, len(first))
			for k := 1; k < len(polls); k++ {
				require.InDelta(t, first[k].Seconds(), polls[k].Seconds(), 0.05, "worker %d, round %d", i, k)
			}
			for k := 3; k < len(polls); k++ { // after a round with all of them
				require.Equal(t, 10*time.Second, polls[k]-polls[k-1])
			}
		}
	})
}

// load-signals.md, section 4: never two polls of one engine, and none is made up for
func TestMissedTicksAreSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{Interval: time.Second})
		f.answers(func(*http.Request) (*http.Response, error) {
			time.Sleep(2500 * time.Millisecond)
			return status(200, loads(1, 0.5)), nil
		})
		add(t, f.registry, serving("http://w", "m"))
		stop := f.start()
		f.wait(20 * time.Second)
		stop()
		polls := f.times("w")
		for i := 2; i < len(polls); i++ {
			require.Equal(t, 3*time.Second, polls[i]-polls[i-1], "the first tick after the poll has ended")
		}
	})
}

// load-signals.md, section 4: a thousand workers are spread over the interval, and polls in flight are bounded
func TestPollsAreSpreadOverTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		var now, most atomic.Int64
		f.answers(func(*http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(100 * time.Millisecond)
			return status(200, loads(1, 0.5)), nil
		})
		for i := range 1000 {
			add(t, f.registry, serving(fmt.Sprintf("http://w%d", i), "m"))
		}
		stop := f.start()
		f.wait(15 * time.Second)
		require.LessOrEqual(t, most.Load(), int64(maxPolls))
		most.Store(0)
		f.wait(10 * time.Second)
		require.Less(t, most.Load(), int64(50), "10 would be in flight on average")
		stop()
		perSecond := [10]int{}
		for _, times := range f.asked {
			for _, at := range times {
				if at >= 15*time.Second && at < 25*time.Second {
					perSecond[int((at-15*time.Second)/time.Second)]++
				}
			}
		}
		for _, n := range perSecond {
			require.InDelta(t, 100, n, 60)
		}
	})
}
