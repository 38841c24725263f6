package workers

import (
	"context"
	"time"
)

// appointment is something that is due at a time, and its place in an agenda.
type appointment struct {
	due   time.Time
	place int // -1 outside
}

func (a *appointment) entry() *appointment { return a }

// agenda is a heap, for container/heap, of what embeds an appointment; the one that is due first is on top.
type agenda[T interface{ entry() *appointment }] []T

func (a agenda[T]) Len() int           { return len(a) }
func (a agenda[T]) Less(i, j int) bool { return a[i].entry().due.Before(a[j].entry().due) }

func (a agenda[T]) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].entry().place, a[j].entry().place = i, j
}

// Push is for container/heap.
func (a *agenda[T]) Push(c any) {
	c.(T).entry().place = len(*a)
	*a = append(*a, c.(T))
}

// Pop is for container/heap.
func (a *agenda[T]) Pop() any {
	var none T
	old := *a
	c := old[len(old)-1]
	old[len(old)-1] = none
	c.entry().place = -1
	*a = old[:len(old)-1]
	return c
}

// alarm wakes who waits for the next appointment.
type alarm chan struct{}

func newAlarm() alarm { return make(alarm, 1) }

// rouse makes heed look at once.
func (a alarm) rouse() {
	select {
	case a <- struct{}{}:
	default: // it is about to look anyway
	}
}

// heed calls look at once, and whenever it is roused or the pause is over that look returned last, until ctx ends.
func (a alarm) heed(ctx context.Context, look func() (pause time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a:
		case <-timer.C:
		}
		timer.Reset(look())
	}
}
