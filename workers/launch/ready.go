package launch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	probeLimit = 5 * time.Second
	// Probes come close together at first: some engines are up in a blink.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
)

// errNotInTime is the cause of a context that ended because the time for the start is over.
var errNotInTime = errors.New("not ready in time")

// Ready returns when every worker answers 200 to GET /health. The error is the first worker that ended, or one that was not
// ready when limit was over, or that ctx has ended. From then on the end of a worker is logged.
func (f *Fleet) Ready(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errNotInTime)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: the workers are on this host
	probes := &http.Client{Transport: transport, Timeout: probeLimit}
	began := time.Now()
	results := make(chan error, len(f.processes))
	for _, p := range f.processes {
		go func() {
			err := p.ready(ctx, probes)
			if err == nil {
				f.Log.Info("worker ready", "rank", p.Rank, "worker", p.URL, "after", time.Since(began).Round(time.Millisecond).String())
			}
			results <- err
		}()
	}
	var failure error
	for range f.processes {
		if err := <-results; err != nil && failure == nil {
			failure = err
			cancel() // the others are no longer needed
		}
	}
	if failure == nil {
		f.report()
		return nil
	}
	if errors.Is(failure, errNotInTime) {
		return fmt.Errorf("%w (limit %s)", failure, limit)
	}
	return failure
}

func (p *process) ready(ctx context.Context, probes *http.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends a probe under way too
		select {
		case <-p.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for next := firstPause; ; next = min(2*next, longestPause) {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return p.whyNot(ctx)
		}
		if healthy(ctx, probes, p.URL) {
			return nil
		}
		pause.Reset(next)
	}
}

// whyNot says why the worker is not ready.
func (p *process) whyNot(ctx context.Context) error {
	select {
	case <-p.exited:
		return fmt.Errorf("worker %d on port %d %s before it was ready", p.Rank, p.Port, p.ending())
	default:
		return fmt.Errorf("worker %d on port %d: %w", p.Rank, p.Port, context.Cause(ctx))
	}
}

func healthy(ctx context.Context, probes *http.Client, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/health", nil)
	if err != nil {
		return false
	}
	answer, err := probes.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
