package replay

import (
	"context"
	"io"
	"runtime"
	"sync"
)

// crew runs simulations on all cores: a slot for each. Runs share nothing that they change, so their order does not matter.
type crew chan struct{}

func newCrew() crew { return make(crew, runtime.GOMAXPROCS(0)) }

// work calls f once a core is free; it does not if ctx ends first.
func (c crew) work(ctx context.Context, f func() error) error {
	select {
	case c <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c }()
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

// each calls f for 0 to n-1, so many at once, and waits for all. The first error ends the context of the others, and is returned.
func each(ctx context.Context, n, atOnce int, f func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	turns := make(chan struct{}, max(1, atOnce))
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := f(ctx, i); err != nil {
				stop(err) // the first of all is the cause
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// inTurn lets several write to one writer, a whole piece at a time.
type inTurn struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *inTurn) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
