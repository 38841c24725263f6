package launch

import (
	"context"
	"errors"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// front is a gateway of a test. It drains until a request that it has is over.
type front struct {
	Gateway
	serving chan []string // the workers that it got
	request chan struct{} // closed when the request is over
	failure error         // of Serve, at once
	early   bool          // a signal comes while it starts, and it does not see it
}

func newFront(t *testing.T) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	f := &front{serving: make(chan []string, 1), request: make(chan struct{})}
	f.Gateway = Gateway{Address: l.Addr().String(), Serve: f.serve}
	return f
}

func (f *front) serve(ctx context.Context, workers []string) error {
	if f.failure != nil {
		return f.failure
	}
	if f.early {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
		return nil
	}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	l, err := net.Listen("tcp", f.Address)
	if err != nil {
		return err
	}
	defer l.Close()
	conn, err := l.Accept() // Run has seen it
	if err != nil {
		return err
	}
	_ = conn.Close()
	f.serving <- workers
	select {
	case <-signals:
	case <-ctx.Done():
		return nil
	}
	<-f.request
	return nil
}

// running calls Run in the background.
func running(b *bench, g *front, limits Limits) chan error {
	ended := make(chan error, 1)
	go func() { ended <- Run(b.workers, b.Options, limits, g.Gateway) }()
	return ended
}

func says(t *testing.T, b *bench, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), text) }, patience, time.Millisecond, text)
}

func send(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(os.Getpid(), sig))
}

var ample = Limits{Ready: time.Hour, Stop: time.Hour}

// cli.md, section 8.10: the gateway drains first, then the workers get SIGTERM
func TestWorkersLiveUntilTheGatewayHasDrained(t *testing.T) {
	b, g := plan(t, "", "child"), newFront(t)
	ended := running(b, g, ample)
	require.Equal(t, []string{b.workers[0].URL, b.workers[1].URL}, <-g.serving)
	says(t, b, "the gateway listens")
	send(t, syscall.SIGTERM)
	require.Never(t, func() bool { return len(ended) > 0 || b.termed(b.workers[0]) }, 100*time.Millisecond, 10*time.Millisecond)
	require.Equal(t, "0 1", get(t, b.workers[0].URL+"/environ"))
	close(g.request)
	require.NoError(t, <-ended)
	require.True(t, b.termed(b.workers[0]) && b.termed(b.workers[1]))
	noChildren(t)
}

// cli.md, section 8.10: before the gateway serves
func TestASignalDuringTheStartStopsTheWorkers(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		b := plan(t, "mute child")
		ended := running(b, newFront(t), ample)
		says(t, b, "worker started")
		require.Eventually(t, func() bool { return strings.Contains(b.errs.String(), "done") }, patience, time.Millisecond)
		send(t, sig)
		var interrupted *Interrupted
		require.ErrorAs(t, <-ended, &interrupted)
		require.Equal(t, sig, interrupted.Signal)
		require.True(t, b.termed(b.workers[0]))
		noChildren(t)
	}
	t.Run("also one that comes before the gateway heeds signals", func(t *testing.T) {
		b, g := plan(t, ""), newFront(t)
		g.early = true
		var interrupted *Interrupted
		require.ErrorAs(t, <-running(b, g, ample), &interrupted)
		require.EqualError(t, interrupted, "stopped by a signal (terminated) before the gateway served")
		noChildren(t)
	})
}

// cli.md, section 8.10: up to 30 s, then SIGKILL
func TestDeafWorkersAreKilledWhenTheirTimeIsOver(t *testing.T) {
	b, g := plan(t, "deaf"), newFront(t)
	close(g.request)
	ended := running(b, g, Limits{Ready: time.Hour, Stop: 200 * time.Millisecond})
	<-g.serving
	says(t, b, "the gateway listens")
	send(t, syscall.SIGTERM)
	require.NoError(t, <-ended)
	require.Contains(t, b.log.String(), "workers do not end, killing them")
	noChildren(t)
}

// cli.md, section 8.10: second signal
func TestASignalWhileWorkersStopKillsThem(t *testing.T) {
	b, g := plan(t, "deaf child"), newFront(t)
	close(g.request)
	ended := running(b, g, ample)
	<-g.serving
	says(t, b, "the gateway listens")
	send(t, syscall.SIGTERM)
	says(t, b, "stopping the workers")
	send(t, syscall.SIGTERM)
	require.NoError(t, <-ended)
	require.Contains(t, b.log.String(), "signal while workers are being stopped")
	noChildren(t)
}

// DECISIONS 49: the third signal ends everything at once; it must not end this process before the workers
func TestTheThirdSignalDoesNotWaitForTheGateway(t *testing.T) {
	b, g := plan(t, "deaf"), newFront(t)
	ended := running(b, g, ample)
	defer close(g.request)
	<-g.serving
	says(t, b, "the gateway listens")
	for range 2 {
		send(t, syscall.SIGTERM)
		require.Never(t, func() bool { return len(ended) > 0 }, 100*time.Millisecond, 10*time.Millisecond)
	}
	send(t, syscall.SIGTERM)
	require.Equal(t, ErrForced, <-ended)
	noChildren(t)
}

// cli.md, section 8.10: all workers have exited
func TestTheGatewayEndsWithTheLastWorker(t *testing.T) {
	b, g := plan(t, "", ""), newFront(t)
	ended := running(b, g, ample)
	workers := <-g.serving
	get(t, workers[0]+"/crash")
	says(t, b, "worker exited with code 5")
	require.Empty(t, ended)
	get(t, workers[1]+"/crash")
	require.Equal(t, ErrWorkersGone, <-ended)
	noChildren(t)
}

// cli.md, section 8.10: any failure path must leave no child behind
func TestFailuresLeaveNoWorker(t *testing.T) {
	t.Run("of a worker", func(t *testing.T) {
		b := plan(t, "deaf", "exit3")
		require.ErrorContains(t, <-running(b, newFront(t), Limits{Ready: time.Hour, Stop: 100 * time.Millisecond}), "exited with code 3")
		noChildren(t)
	})
	t.Run("of the gateway", func(t *testing.T) {
		b, g := plan(t, ""), newFront(t)
		g.failure = errors.New("no luck")
		require.Equal(t, g.failure, <-running(b, g, ample))
		require.True(t, b.termed(b.workers[0]))
		noChildren(t)
	})
	t.Run("of an address in use, before anything is started", func(t *testing.T) {
		b, g := plan(t, ""), newFront(t)
		l, err := net.Listen("tcp", g.Address)
		require.NoError(t, err)
		defer l.Close()
		require.ErrorContains(t, <-running(b, g, ample), "failed to bind "+g.Address+": ")
		require.Empty(t, b.log.String())
	})
}
