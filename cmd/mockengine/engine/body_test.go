package engine

import (
	"bytes"
	"io"
	"net"
	"net/http/httputil"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// feed is a connection whose peer has sent b and closed.
type feed struct {
	net.Conn
	r io.Reader
}

func (f feed) Read(b []byte) (int, error) { return f.r.Read(b) }

func newFeed(r io.Reader) *peer {
	return newPeer(feed{r: r}, 1, func(f func()) { f() })
}

// FuzzChunked compares with the standard library: what it refuses may be accepted here (it is stricter about extensions), but
// what both accept must be the same.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("1;a=b\r\nx\r\n00\r\nT: u\r\n\r\n"))
	f.Add([]byte("ffffffffffffffff\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := newFeed(bytes.NewReader(raw)).readBody(&head{chunked: true}, nil)
		if err != nil {
			return
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(raw)))
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%q: got %q, want %q", raw, got, want)
		}
	})
}

func TestBodiesAreReadFromAnyCuts(t *testing.T) {
	raw := "4\r\nhell\r\n1\r\no\r\n0\r\n\r\nrest"
	for cut := 1; cut < len(raw); cut++ {
		p := newFeed(io.MultiReader(bytes.NewReader([]byte(raw[:cut])), bytes.NewReader([]byte(raw[cut:]))))
		body, err := p.readBody(&head{chunked: true}, nil)
		require.NoError(t, err)
		require.Equal(t, "hello", string(body))
	}
}

func TestHeadsAreReadFromAnyCuts(t *testing.T) {
	raw := "GET / HTTP/1.1\r\nA: b\r\n\r\nrest"
	for cut := 1; cut < len(raw); cut++ {
		p := newFeed(io.MultiReader(bytes.NewReader([]byte(raw[:cut])), bytes.NewReader([]byte(raw[cut:]))))
		got, err := p.head()
		require.NoError(t, err)
		require.Equal(t, "GET / HTTP/1.1\r\nA: b", string(got))
	}
}

// A peer sends while nobody wants to read: the bytes must come out in order, and its leaving must be seen.
func TestReadingAheadLosesNothing(t *testing.T) {
	near, far := net.Pipe()
	var wg sync.WaitGroup
	p := newPeer(near, 1, func(f func()) { wg.Go(f) })
	sent := bytes.Repeat([]byte("0123456789"), 1000)
	wg.Go(func() {
		for rest := sent; len(rest) > 0; rest = rest[100:] {
			_, _ = far.Write(rest[:100])
		}
		_ = far.Close()
	})
	var got []byte
	for len(got) < len(sent) {
		p.watch()
		require.NoError(t, p.fill())
		got = append(got, p.buf[p.pos:p.end]...)
		p.pos = p.end
		p.compact()
	}
	require.True(t, bytes.Equal(sent, got))
	p.watch()
	select {
	case <-p.gone:
	case <-time.After(patience):
		t.Fatal("the peer's leaving was not seen")
	}
	require.NotZero(t, p.fate.closed.Load())
	require.Error(t, p.fill())
	require.NoError(t, near.Close())
	wg.Wait()
}
