//go:build unix

package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// crowd is so many connections to a gateway, which are closed when the test ends. Both their ends are in this process.
func crowd(t testing.TB, g *running, n int) []net.Conn {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < uint64(2*n+500) {
		t.Skipf("%d connections need more descriptors than the %d that a process has here", n, limit.Cur)
	}
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := net.Dial("tcp", g.main.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		conns[i] = c
	}
	return conns
}

// DECISIONS.md row 38: clients that send nothing, or a byte of a head now and then, are closed in time, all of them, and nobody else
// notices them.
func TestACrowdThatSendsNextToNothingIsClosedAndHoldsUpNobody(t *testing.T) {
	t.Parallel() // it waits
	const silent, dribbling = 1000, 1000
	g := start(t, func(c *Config) { c.HeaderReadTimeout = 2 }, engine.Start(t, engine.Config{}))
	conns := crowd(t, g, silent+dribbling)
	closed := make(chan struct{})
	var open sync.WaitGroup
	for _, c := range conns {
		open.Go(func() {
			_ = c.SetReadDeadline(time.Now().Add(patience))
			if answer, _ := io.ReadAll(c); len(answer) > 0 {
				t.Errorf("it is answered: %q", answer)
			}
		})
	}
	go func() { open.Wait(); close(closed) }()
	const head = "POST " + chatPath + " HTTP/1.1\r\nHost: gateway\r\nX-Dribble: "
	sent, waiting := 0, true
	for waiting {
		for _, c := range conns[:dribbling] {
			_, _ = io.WriteString(c, (head + "aaaaaaaa")[min(sent, len(head)):][:1]) // an error if it was closed
		}
		sent++
		require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
		select {
		case <-closed:
			waiting = false
		default:
		}
	}
	require.EqualValues(t, silent+dribbling, testutil.ToFloat64(g.gateway.metrics.HTTP.HeaderTimeouts))
	require.Zero(t, testutil.ToFloat64(g.gateway.metrics.HTTP.IdleTimeouts))
}

// BenchmarkCrowd is a request beside so many connections that have sent a part of a head; 9500 is what 20,000 descriptors allow.
func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{0, 1000, 9500} {
		b.Run(fmt.Sprintf("%d connections", n), func(b *testing.B) {
			g := start(b, func(c *Config) { c.HeaderReadTimeout = 3600 }, engine.Start(b, engine.Config{}))
			for _, c := range crowd(b, g, n) {
				_, err := io.WriteString(c, "GET /health")
				require.NoError(b, err)
			}
			took := make([]time.Duration, 0, 1024)
			for b.Loop() {
				began := time.Now()
				if r := g.post(b, chatPath, chat); r.StatusCode != http.StatusOK {
					b.Fatal(r.StatusCode)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}
