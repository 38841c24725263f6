package forward

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// case C05; load-signals.md, section 2: a client that leaves ends the call at the worker, silent or not.
func TestInterruptClosesTheConnectionOfASilentWorker(t *testing.T) {
	tests := []struct{ name, sent string }{
		{"before the head", ""},
		{"after the head", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"after an event", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nx: y\r\n"},
		{"in a body that the end of the connection ends", "HTTP/1.1 200 OK\r\n\r\nabcd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			asked, closed := make(chan struct{}), make(chan struct{})
			s := listen(t, func(p *peer) {
				p.request()
				_, _ = io.WriteString(p, tt.sent)
				close(asked)
				p.gone()
				close(closed)
			})
			tr, resends := counting(t)
			c := s.post("{}")
			go func() {
				<-asked
				c.Interrupt()
			}()
			_, _, err := exchangeOnce(tr, c)
			require.ErrorIs(t, err, errInterrupted)
			<-closed
			require.Zero(t, resends.Load(), "an interrupted call is not sent again")
			open, _ := tr.Connections()
			require.Zero(t, open)
		})
	}
}

func TestInterruptBeforeSendContactsNobody(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	c := s.get()
	c.Interrupt()
	_, err := tr.send(c)
	require.ErrorIs(t, err, errInterrupted)
	require.Zero(t, s.accepted.Load())

	parallel(t, tr, 1, DefaultPool, s)
	_, err = tr.send(c)
	require.ErrorIs(t, err, errInterrupted, "it stays in force")
	_, idle := tr.Connections()
	require.EqualValues(t, 1, idle, "and costs no idle connection")

	c.reset()
	*c = call{Pool: DefaultPool, Endpoint: &s.Endpoint, Method: "GET"}
	_, _, err = exchangeOnce(tr, c)
	require.NoError(t, err, "until reset")
}

func TestInterruptAfterCloseTouchesNothing(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	first := s.get()
	_, _, err := exchangeOnce(tr, first)
	require.NoError(t, err)
	a, err := tr.send(s.get())
	require.NoError(t, err)
	require.True(t, a.Reused)
	first.Interrupt()
	_, err = a.read()
	require.NoError(t, err)
	a.close()
	_, idle := tr.Connections()
	require.EqualValues(t, 1, idle)
}

// Interrupt between the end of the body and close has closed the connection: it must not be kept.
func TestInterruptBeforeCloseKeepsNoConnection(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	c := s.get()
	a, err := tr.send(c)
	require.NoError(t, err)
	_, err = a.read()
	require.NoError(t, err)
	c.Interrupt()
	a.close()
	open, idle := tr.Connections()
	require.Zero(t, open)
	require.Zero(t, idle)
}

// load-signals.md, section 2: a deadline bounds the body too; a tick of the read deadline does not end it.
func TestDeadlinesOfABody(t *testing.T) {
	more := make(chan struct{})
	s := listen(t, func(p *peer) {
		p.request()
		_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab")
		<-more
		_, _ = io.WriteString(p, "c")
		p.gone()
	})
	c := s.get()
	tr := testTransport(t)
	a, err := tr.send(c)
	require.NoError(t, err)
	defer a.close()
	_, err = a.next()
	require.NoError(t, err)
	for range 3 {
		a.setReadDeadline(time.Now().Add(time.Millisecond))
		_, err = a.next()
		require.Equal(t, errTick, err)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	close(more)
	a.setReadDeadline(time.Time{})
	piece, err := a.next()
	require.NoError(t, err)
	require.Equal(t, "c", string(piece))
	c.Deadline = time.Now().Add(10 * time.Millisecond)
	a.setReadDeadline(time.Now().Add(time.Hour))
	_, err = a.next()
	require.ErrorIs(t, err, errTimeout)
	require.NotEqual(t, errTick, err, "the call's own deadline is final")
}

// A deadline that passed while the connection was idle must not meet the next call.
func TestAnOldDeadlineIsForgotten(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	c := s.get()
	c.Deadline = time.Now().Add(time.Second)
	_, _, err := exchangeOnce(tr, c)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return passed(c.Deadline) }, 5*time.Second, time.Millisecond)
	c = s.get()
	c.Deadline = time.Time{}
	a, err := tr.send(c)
	require.NoError(t, err)
	require.True(t, a.Reused)
	a.close()
}

// Every answer belongs to its request, whoever is interrupted when, with calls and connections used again and again.
func TestInterruptsNeverHitSomebodyElse(t *testing.T) {
	s := listen(t, func(p *peer) {
		for {
			r, _ := p.request()
			if r == nil {
				return
			}
			id := r.URL.Path[1:]
			pad := strings.Repeat("x", rand.IntN(8000))
			_, err := fmt.Fprintf(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n%x\r\n%s;\r\n0\r\n\r\n", len(id), id, len(pad)+1, pad)
			if err != nil {
				return
			}
		}
	})
	tr := testTransport(t)
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			c := new(call)
			for i := range 60 {
				c.reset()
				c.Pool, c.Endpoint, c.Method, c.Path = DefaultPool, &s.Endpoint, "GET", fmt.Sprintf("/%d-%d", g, i)
				c.Deadline = time.Now().Add(time.Minute)
				interrupt := rand.IntN(3) == 0
				var interrupter sync.WaitGroup
				if interrupt {
					interrupter.Go(func() {
						for range rand.IntN(2000) {
							_ = c.isInterrupted()
						}
						c.Interrupt()
					})
				}
				_, body, err := exchangeOnce(tr, c)
				interrupter.Wait()
				if err == nil && !strings.HasPrefix(body, c.Path[1:]) {
					t.Errorf("%s got %.20q", c.Path, body)
				}
				if err != nil && !interrupt {
					t.Errorf("%s: %v", c.Path, err)
				}
			}
		})
	}
	wg.Wait()
}
