package server

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// flood is a worker that streams as fast as its socket takes it, until it is told to end.
type flood struct {
	mu     sync.Mutex
	events map[string]*flooding // by request id
	end    chan struct{}        // closed: streams end
}

// flooding is one stream of a flood.
type flooding struct {
	written atomic.Int64
	sum     hash.Hash // to be read when over is closed
	over    chan struct{}
}

// tooMuch is what no stream may get rid of while its client does not read: more than all socket buffers on the way hold.
const tooMuch = 256 << 20

func (f *flood) play(a *act) {
	s := &flooding{sum: sha256.New(), over: make(chan struct{})}
	f.mu.Lock()
	f.events[a.Header.Get("X-Request-Id")] = s
	f.mu.Unlock()
	defer close(s.over)
	part, framed := blanks, blanks
	if strings.HasSuffix(a.URL.Path, "/completions") {
		part, framed = strings.Repeat(flooded, 32), strings.Repeat(chunked(flooded), 32)
		a.stream()
	} else {
		a.head("200 OK", "Content-Type: text/event-stream")
	}
	for s.written.Load() < tooMuch {
		select {
		case <-a.gone:
			return
		case <-f.end:
			if part != blanks {
				a.done()
			}
			return
		default:
		}
		a.write(framed)
		s.sum.Write([]byte(part))
		s.written.Add(int64(len(part)))
	}
}

// Chat gets events, each a chunk of its own; /generate gets empty lines up to the end of the connection, in which the relay always
// stands between two events, and could take the client's silence for the worker's.
var (
	flooded = "data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("x", 980) + "\"}}]}\n\n"
	blanks  = strings.Repeat("\n", 32<<10)
)

func (f *flood) stream(id string) *flooding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.events[id]
}

// blocked waits until the worker cannot write any more in any stream: their counts stand still.
func (f *flood) blocked(t *testing.T, streams int) {
	t.Helper()
	var before int64
	still := 0
	require.Eventually(t, func() bool {
		var now int64
		for i := range streams {
			now += f.stream(id(i)).written.Load()
		}
		if still++; now != before {
			before, still = now, 0
		}
		return still == 25
	}, patience, 10*time.Millisecond, "the worker writes on although nobody reads")
}

func id(i int) string { return fmt.Sprintf("r%d", i) }

// Case C04, http-dataplane.md section 9.3: a client that reads slowly slows its worker down. The gateway keeps a buffer of fixed
// size for it, whatever the worker has to say; nothing is lost, and a client that goes lets the worker go.
func TestC04ASlowClientHoldsItsWorkerBackAndNotTheGatewaysMemory(t *testing.T) {
	const streams = 6
	f := &flood{events: map[string]*flooding{}, end: make(chan struct{})}
	w := startPuppet(t, f.play)
	// The client's silence is longer than the worker's may be: a comment that fills the latter would be one byte too many here.
	g := startPuppets(t, func(c *Config) { c.SSEKeepalive, c.HealthCheckInterval = 2, 1 }, w)
	before := heap()
	clients := make([]*wire, streams)
	bodies := make([]io.Reader, streams)
	for i := range clients {
		c := g.dial(t)
		clients[i] = c
		require.NoError(t, c.SetReadBuffer(64<<10))
		path, body := chatPath, chats
		if i%2 == 1 {
			path, body = "/generate", `{"text":"hi","stream":true}`
		}
		c.post(t, path, len(body), body, "X-Request-Id: "+id(i))
		resp := c.read(t)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		bodies[i] = resp.Body
	}
	sums := make([]hash.Hash, streams)
	for i, body := range bodies {
		sums[i] = sha256.New()
		_, err := io.CopyN(sums[i], body, 64<<10)
		require.NoError(t, err)
	}
	f.blocked(t, streams)
	for i := range streams {
		require.Less(t, f.stream(id(i)).written.Load(), int64(tooMuch), "nothing held the worker back")
	}
	require.Less(t, heap()-before, int64(streams)<<20, "bytes that the gateway keeps of %d streams", streams)

	for i := range streams / 2 {
		clients[i].leave(i == 2)
		<-f.stream(id(i)).over // the worker's connection is closed, although it was in the middle of a write
	}
	w.probed(t, 3)
	close(f.end)
	for i := streams / 2; i < streams; i++ {
		_, err := io.Copy(sums[i], bodies[i])
		require.NoError(t, err)
		s := f.stream(id(i))
		<-s.over
		require.Equal(t, s.sum.Sum(nil), sums[i].Sum(nil), "client %d did not get what the worker wrote", i)
	}
	g.quiet(t)
	require.Zero(t, g.failures(), "a slow client is not the worker's fault")
}

// heap is the size of what is alive, in bytes: gateway, worker and clients together.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first leaves what pools held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
