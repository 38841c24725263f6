package forward

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// callTo is a call with a body to a server of any scheme.
func callTo(t *testing.T, url, body string) *call {
	t.Helper()
	e, err := workers.ParseEndpoint(url)
	require.NoError(t, err)
	return &call{
		Pool: DefaultPool, Endpoint: &e, Method: "POST", Path: "/generate?q=1", Body: []byte(body),
		Fields: []pipeline.Field{{Name: "Content-Type", Value: "text/plain"}}, Deadline: time.Now().Add(20 * time.Second),
	}
}

// adapted is an adapter over a standard transport, which a test leaves without connections.
func adapted(t *testing.T) *adapter {
	rt := &http.Transport{}
	t.Cleanup(rt.CloseIdleConnections)
	return senderOver(rt).(*adapter)
}

func TestTheLeanClientNeedsNoAdapter(t *testing.T) {
	tr := testTransport(t)
	require.Same(t, tr, senderOver(tr))
}

// The rows hold for the lean client in the tests beside this one.
func TestAnyRoundTripperCarriesCalls(t *testing.T) {
	s := httptest.NewServer(mirror)
	defer s.Close()
	c := callTo(t, s.URL+"/base", "body")
	a, err := adapted(t).send(c)
	require.NoError(t, err)
	require.Equal(t, 202, a.Status)
	require.Equal(t, "/base/generate?q=1", fieldValue(a.Fields, "X-Uri"))
	require.Equal(t, "identity", fieldValue(a.Fields, "X-Agent"), "an answer must not be packed behind our back")
	body, err := a.read()
	require.NoError(t, err)
	require.Equal(t, "body", body)
	require.Equal(t, []pipeline.Field{{Name: "X-Sum", Value: "7"}}, a.Trailers())
	a.close()
	a.close()
	c.reset()
}

func TestAdaptedFailures(t *testing.T) {
	tests := []struct {
		name    string
		serve   func(p *peer)
		upload  io.Reader
		kind    error
		conns   int // 0: as it comes, net/http may read the body before it connects
		resends int
	}{
		{"every connection is closed: two, then the error", func(p *peer) { p.request() }, nil, errSend, 2, 1},
		{"an upload is sent once", func(p *peer) { p.request() }, strings.NewReader("x"), errSend, 1, 0},
		{"what is no HTTP is an answer", func(p *peer) { p.request(); _, _ = io.WriteString(p, "BUSY\r\n\r\n") }, nil, errSend, 1, 0},
		{"a cut body", once("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), nil, errBody, 1, 0},
		{"a source that breaks", func(p *peer) { p.gone() }, io.MultiReader(strings.NewReader("a"), failing{}), errUpload, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := listen(t, tt.serve)
			ad, resends := adapted(t), 0
			ad.onResend = func() { resends++ }
			c := s.post("{}")
			if tt.upload != nil {
				c.Body, c.Upload = nil, tt.upload
			}
			_, _, err := exchangeOnce(ad, c)
			require.ErrorIs(t, err, tt.kind)
			if tt.conns > 0 {
				require.EqualValues(t, tt.conns, s.accepted.Load(), "connections")
			}
			require.Equal(t, tt.resends, resends)
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// case C39 over a standard transport, which would not send a POST again by itself.
func TestTheKeepAliveRaceIsInvisibleThroughAnAdapter(t *testing.T) {
	s := listen(t, func(p *peer) {
		if r, _ := p.request(); r != nil {
			_, _ = io.WriteString(p, okAnswer)
		}
		_, _ = p.in.ReadString('\n')
	})
	ad := adapted(t)
	for range 10 {
		_, _, err := exchangeOnce(ad, s.post("{}"))
		require.NoError(t, err)
	}
}

// case C05
func TestAdaptedCallsAreInterrupted(t *testing.T) {
	for _, sent := range []string{"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"} {
		asked, closed := make(chan struct{}), make(chan struct{})
		s := listen(t, func(p *peer) {
			p.request()
			_, _ = io.WriteString(p, sent)
			close(asked)
			p.gone()
			close(closed)
		})
		c := s.post("{}")
		go func() {
			<-asked
			c.Interrupt()
		}()
		_, _, err := exchangeOnce(adapted(t), c)
		require.ErrorIs(t, err, errInterrupted)
		<-closed
		_, err = adapted(t).send(c)
		require.ErrorIs(t, err, errInterrupted, "it stays in force")
	}
}

func TestAdaptedDeadlines(t *testing.T) {
	more := make(chan struct{})
	s := listen(t, func(p *peer) {
		p.request()
		_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
		<-more
		_, _ = io.WriteString(p, "c")
		p.gone()
	})
	ad := adapted(t)
	c := s.get()
	a, err := ad.send(c)
	require.NoError(t, err)
	_, err = a.next()
	require.NoError(t, err)
	for range 3 {
		a.setReadDeadline(time.Now().Add(time.Millisecond))
		_, err = a.next()
		require.Equal(t, errTick, err)
	}
	close(more)
	a.setReadDeadline(time.Time{})
	piece, err := a.next()
	require.NoError(t, err)
	require.Equal(t, "c", string(piece))
	a.setReadDeadline(time.Now().Add(time.Millisecond))
	_, err = a.next()
	require.Equal(t, errTick, err)
	a.close() // while a read goes on

	c = s.get()
	c.Deadline = time.Now().Add(50 * time.Millisecond)
	_, _, err = exchangeOnce(ad, c)
	require.ErrorIs(t, err, errTimeout)
}
