package forward

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// stalling is an upload whose source has stopped; Close, as a deadline would, ends the Read.
type stalling struct {
	first  io.Reader
	closed chan struct{}
}

func (s *stalling) Read(p []byte) (int, error) {
	if n, _ := s.first.Read(p); n > 0 {
		return n, nil
	}
	<-s.closed
	return 0, errors.New("the source was closed")
}

func (s *stalling) Close() error {
	close(s.closed)
	return nil
}

func newStalling() *stalling {
	return &stalling{first: strings.NewReader("begun"), closed: make(chan struct{})}
}

// http-dataplane.md, sections 4 and 8; case C22
func TestUploads(t *testing.T) {
	broken := errors.New("the client broke off")
	long := strings.Repeat("0123456789", 20_000)
	tests := []struct {
		name   string
		source io.Reader
		length int64
		want   string // "" if the request never becomes whole
		err    error
	}{
		{"an unknown length", strings.NewReader(long), 0, long, nil},
		{"one byte at a time", iotest.OneByteReader(strings.NewReader("abc")), 0, "abc", nil},
		{"the end comes with the last bytes", iotest.DataErrReader(strings.NewReader("abc")), 0, "abc", nil},
		{"nothing at all", strings.NewReader(""), 0, "", nil},
		{"a known length", strings.NewReader(long), int64(len(long)), long, nil},
		{"the source breaks", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 0, "", broken},
		{"a source of known length breaks", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 9, "", broken},
		{"shorter than declared", strings.NewReader("abc"), 4, "", io.ErrUnexpectedEOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bodies := make(chan string, 1)
			s := listen(t, func(p *peer) {
				for {
					r, body := p.request()
					if r == nil {
						return
					}
					bodies <- string(body)
					_, _ = io.WriteString(p, okAnswer)
				}
			})
			tr, resends := counting(t)
			c := s.post("")
			c.Body, c.Upload, c.UploadLength = nil, tt.source, tt.length
			_, body, err := exchangeOnce(tr, c)
			if tt.err != nil {
				require.ErrorIs(t, err, errUpload)
				require.ErrorIs(t, err, tt.err)
				require.Empty(t, bodies)
			} else {
				require.NoError(t, err)
				require.Equal(t, "ok", body)
				require.True(t, tt.want == <-bodies)
			}
			require.Zero(t, resends.Load())
			require.Eventually(t, func() bool { return s.accepted.Load() == 1 }, 5*time.Second, time.Millisecond)
			_, idle := tr.Connections()
			require.Equal(t, tt.err == nil, idle == 1)
		})
	}
}

// An answer may come while the client has not sent everything; then nobody reads from the client any more.
func TestAnEarlyAnswerEndsTheUpload(t *testing.T) {
	s := listen(t, func(p *peer) {
		_, err := http.ReadRequest(p.in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(p, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
		p.gone()
	})
	source := newStalling()
	tr := testTransport(t)
	c := s.post("")
	c.Body, c.Upload = nil, source
	status, _, err := exchangeOnce(tr, c)
	require.NoError(t, err)
	require.Equal(t, 413, status)
	select {
	case <-source.closed:
	default:
		t.Fatal("the source is still being read")
	}
	open, _ := tr.Connections()
	require.Zero(t, open)
}

// An interrupted or late call does not wait for a client that sends nothing.
func TestAStalledUploadDoesNotHoldTheCall(t *testing.T) {
	for _, kind := range []error{errInterrupted, errTimeout} {
		started := make(chan struct{}, 1)
		s := listen(t, func(p *peer) {
			_, _ = p.in.ReadString('\n')
			started <- struct{}{}
			p.gone()
		})
		c := s.post("")
		c.Body, c.Upload = nil, newStalling()
		if kind == errTimeout { //nolint:errorlint // a row, not an outcome
			c.Deadline = time.Now().Add(30 * time.Millisecond)
		} else {
			go func() {
				<-started
				c.Interrupt()
			}()
		}
		_, err := testTransport(t).send(c)
		require.ErrorIs(t, err, kind)
	}
}

// A source that breaks behind the head is the client's fault too, and not the worker's.
func TestAnUploadThatBreaksInTheAnswer(t *testing.T) {
	s := listen(t, func(p *peer) {
		_, _ = p.in.ReadString('\n')
		_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		p.gone()
	})
	source := newStalling()
	c := s.post("")
	c.Body, c.Upload = nil, source
	a, err := testTransport(t).send(c)
	require.NoError(t, err)
	defer a.close()
	source.Close()
	_, err = a.next()
	require.ErrorIs(t, err, errUpload)
}
