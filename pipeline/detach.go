package pipeline

import (
	"context"
	"runtime/debug"
	"time"
)

// Detach hands over work that outlives the response: draining a prefill answer, telling an engine to abort. The leg's count
// goes with it and is given back when the work returns. limit is how long it may take, above 0: then its context ends.
// The runtime waits for it when it stops. work must not use the exchange, which belongs to another request by then.
func (x *Exchange) Detach(leg *Leg, limit time.Duration, work func(ctx context.Context) error) {
	end := leg.handOver()
	if x.chain != nil {
		if r := x.chain.runtime.Load(); r != nil {
			r.detach(end, limit, work)
			return
		}
	}
	go runDetached(context.Background(), end, limit, work) // a chain that no runtime serves: nobody waits for it
}

func (r *Runtime) detach(end func(), limit time.Duration, work func(ctx context.Context) error) {
	awaited := r.await()
	go func() {
		if awaited {
			defer r.detached.Done()
		}
		if err := runDetached(r.works, end, limit, work); err != nil {
			r.log.Warn("detached work failed", "error", err)
		}
	}()
}

// await counts work that Stop waits for; once Stop is waiting, no more is counted.
func (r *Runtime) await() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return false
	}
	r.detached.Add(1)
	return true
}

func runDetached(ctx context.Context, end func(), limit time.Duration, work func(ctx context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer end()
	defer recoverTo(&err)
	return work(ctx)
}

// recoverTo makes an error of a panic.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = &PanicError{Value: p, Stack: debug.Stack()}
	}
}
