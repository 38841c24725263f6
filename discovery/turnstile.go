package discovery

import (
	"context"
	"runtime"
	"time"

	"github.com/smg-go/smg/workers"
)

// turnstile keeps a pass that registers many workers from taking the processors away from requests. Engines that answer at once would
// have as many registrations compete for them as the queue runs at a time, with each step of a request in line behind all of those:
// 2,000 pods made requests on two cores wait 0.6 s. A few at a time take no longer for all.
//
// An engine that takes its time costs nothing meanwhile: its registration is not waited for longer than the patience.
type turnstile struct {
	jobs   *workers.Jobs
	inside []entrance
}

// entrance is a registration that has been let through; the zero value is a free place.
type entrance struct {
	address string
	at      time.Time
}

const (
	insidePerCPU      = 4                     // registrations at a time, for each processor
	turnstilePatience = 50 * time.Millisecond // with one that lasts
	turnstilePoll     = time.Millisecond
)

func newTurnstile(jobs *workers.Jobs) *turnstile {
	return &turnstile{jobs: jobs, inside: make([]entrance, insidePerCPU*runtime.GOMAXPROCS(0))}
}

// enter returns when the registration at an address may be submitted; false if ctx ended before.
func (t *turnstile) enter(ctx context.Context, address string) bool {
	for ctx.Err() == nil {
		now := time.Now()
		for i, e := range t.inside {
			if now.Sub(e.at) >= turnstilePatience || !t.jobs.Busy(e.address) {
				t.inside[i] = entrance{address, now}
				return true
			}
		}
		sleep(ctx, turnstilePoll)
	}
	return false
}
