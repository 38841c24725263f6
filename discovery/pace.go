package discovery

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"
)

// pace is how fast, how long and how much at a time the API server is asked.
type pace struct {
	page        int64         // pods in one answer to a list
	list        time.Duration // limit of one request of a list
	watch       time.Duration // after which the server is asked to end a watch, at most; it is renewed then
	slack       time.Duration // after that, a watch that has not ended is dead
	short       time.Duration // a watch that ends sooner than that, and has brought nothing, counts as an error
	first, most time.Duration // wait after an error: doubled each time, up to most
	healthy     time.Duration // a watch that has lived as long starts the doubling anew
	confirm     time.Duration // until the second list that a loss of more than half of the workers needs
	reconnect   time.Duration // between attempts to make a client
}

var defaultPace = pace{
	page: 500, list: time.Minute, watch: 295 * time.Second, slack: 15 * time.Second, short: time.Second,
	first: 800 * time.Millisecond, most: 30 * time.Second, healthy: 2 * time.Minute,
	confirm: 30 * time.Second, reconnect: 30 * time.Second,
}

// lifetime is what a watch asks for: up to a tenth less than the most, so that the watches of many gateways do not end together.
func (p *pace) lifetime() time.Duration {
	return max(time.Second, p.watch-rand.N(p.watch/10+1)).Truncate(time.Second)
}

// backoff is the wait after errors that follow one another.
type backoff struct {
	pace *pace
	next time.Duration
}

// after is how long to wait after one more error: three to four quarters of the step, and not less than what the server asks for.
func (b *backoff) after(asked time.Duration) time.Duration {
	step := max(b.next, b.pace.first)
	b.next = min(2*step, b.pace.most)
	return min(max(step-rand.N(step/4+1), asked), b.pace.most)
}

func (b *backoff) reset() { b.next = 0 }

// sleep waits; it returns false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// seconds is a duration as the log lines have it.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s" }
