package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

const draining = `{"status":"not ready","reason":"draining"}`

// patiently lets a shutdown last until the test goes on: the settle window ends with a signal, and the grace period not at all.
func patiently(g *running) { g.settle = time.Hour }

func long(c *Config) { c.ShutdownGracePeriod, c.SSEKeepalive = 7200, 0 }

// ended waits until the gateway has ended well, and lets the end of the test know.
func (g *running) ended(t testing.TB) {
	t.Helper()
	select {
	case err := <-g.done:
		require.NoError(t, err)
		g.stop, g.done = make(chan os.Signal, 1), make(chan error, 1)
		g.done <- nil
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
}

// refuses waits until nobody listens any more.
func (g *running) refuses(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(g.URL, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	}, patience, 5*time.Millisecond, "connections are accepted still")
}

// playedStream is a worker that sends one event, and the last one when it is told to.
func playedStream(t *testing.T) (p *puppet, finish func()) {
	t.Helper()
	rest := make(chan struct{})
	p = startPuppet(t, func(a *act) {
		if !strings.Contains(a.Sent, `"stream":true`) {
			a.answer(chatAnswer)
			return
		}
		a.stream()
		a.chunk("data: 1\n\n")
		select {
		case <-rest:
			a.chunk("data: [DONE]\n\n")
			a.done()
		case <-a.gone:
		}
	})
	return p, func() { close(rest) }
}

// http-dataplane.md section 13, workers.md section 21, DECISIONS.md row 49
func TestShutdownServesUntilTheWindowEndsAndStreamsToTheirEnd(t *testing.T) {
	p, finish := playedStream(t)
	g := startPuppets(t, func(c *Config) { long(c); c.HealthCheckPort = new(int) }, p)
	patiently(g)
	stream, idle := g.dial(t), g.dial(t)
	stream.post(t, chatPath, len(chats), chats)
	answer := stream.read(t)
	require.Equal(t, http.StatusOK, idle.ask(t, false, rawPost("HTTP/1.1", chatPath, chat)).Status)

	g.stop <- syscall.SIGTERM
	g.await(t, "/readiness", http.StatusServiceUnavailable)
	require.Equal(t, draining, g.get(t, "/readiness").Body)
	aside, err := http.Get("http://" + g.probes.Addr().String() + "/readiness")
	require.NoError(t, err)
	defer aside.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, aside.StatusCode)
	require.Equal(t, http.StatusOK, g.get(t, "/liveness").StatusCode, "it lives")
	fresh := g.dial(t)
	require.Equal(t, http.StatusOK, fresh.ask(t, false, rawPost("HTTP/1.1", chatPath, chat)).Status, "a new connection is served")

	g.stop <- os.Interrupt
	g.refuses(t)
	_, err = idle.in.ReadByte()
	require.ErrorIs(t, err, io.EOF, "an idle connection is closed")
	live, err := http.Get("http://" + g.probes.Addr().String() + "/liveness")
	require.NoError(t, err, "probes are answered to the end")
	defer live.Body.Close()
	require.Equal(t, http.StatusOK, live.StatusCode)

	finish()
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(rest))
	g.ended(t)
	for _, line := range []string{"shutdown begins", "draining", "second signal: the settle window ends", "drained", "exiting"} {
		require.Equal(t, 1, strings.Count(g.Log.String(), ": "+line), line)
	}
}

// http-dataplane.md section 13: with nothing in flight there is nothing to wait for.
func TestShutdownEndsWhenNothingIsInFlight(t *testing.T) {
	g := start(t, long, engine.Start(t, engine.Config{}))
	require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
	g.settle = 0
	g.stop <- syscall.SIGTERM
	g.ended(t)
	require.NotContains(t, g.Log.String(), "grace period over")
}

// workers.md section 21: what does not end in time is cut, visibly, and counted.
func TestShutdownCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel() // it waits
	p, _ := playedStream(t)
	g := startPuppets(t, func(c *Config) { c.ShutdownGracePeriod = 1 }, p)
	g.settle = 0
	stream := g.dial(t)
	stream.post(t, chatPath, len(chats), chats)
	answer := stream.read(t)

	g.stop <- syscall.SIGTERM
	g.ended(t)
	_, err := io.ReadAll(answer.Body)
	require.Error(t, err, "a cut stream does not look whole")
	require.Contains(t, g.Log.String(), "grace period over, cutting what is left remaining=1")
	g.quiet(t)
}

// DECISIONS.md row 49: only a third signal ends the process, also when the settle window has ended by itself.
func TestASecondSignalBehindTheWindowCutsNothing(t *testing.T) {
	p, finish := playedStream(t)
	g := startPuppets(t, long, p)
	g.settle = 0
	stream := g.dial(t)
	stream.post(t, chatPath, len(chats), chats)
	answer := stream.read(t)

	g.stop <- syscall.SIGTERM
	g.refuses(t)
	g.stop <- syscall.SIGTERM
	require.Eventually(t, func() bool { return len(g.stop) == 0 }, patience, time.Millisecond, "the signal is not taken")
	finish()
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "data: 1\n\ndata: [DONE]\n\n", string(rest))
	g.ended(t)
}

// http-dataplane.md section 13: a grace period of 0 is none.
func TestShutdownWithoutGraceIsImmediate(t *testing.T) {
	p, _ := playedStream(t)
	g := startPuppets(t, func(c *Config) { c.ShutdownGracePeriod = 0 }, p)
	stream := g.dial(t)
	stream.post(t, chatPath, len(chats), chats)
	answer := stream.read(t)
	g.stop <- syscall.SIGTERM
	g.ended(t)
	_, err := io.ReadAll(answer.Body)
	require.Error(t, err)
	g.quiet(t)
}

// A program that runs the gateway ends it by its context.
func TestTheEndOfTheContextEndsTheGateway(t *testing.T) {
	cfg := Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.PrometheusPort = "127.0.0.1", 0, "127.0.0.1", 0
	cfg.ShutdownGracePeriod, cfg.LogDir, cfg.LogLevel = 0, t.TempDir(), "error"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, cfg) }()
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the gateway does not end")
	}
}

// Workers that are still awaited do not hold the end up.
func TestShutdownDoesNotWaitForWorkersThatAreDown(t *testing.T) {
	e := engine.Start(t, engine.Config{})
	e.Down()
	g := start(t, func(c *Config) { c.StartupCheckInterval = 600; c.WorkerURLs = []string{e.URL} })
	require.Eventually(t, func() bool { return strings.Contains(g.Log.String(), "worker is not up yet") }, patience, 5*time.Millisecond)
	g.stop <- syscall.SIGTERM
	g.ended(t)
}
