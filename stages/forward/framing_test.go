package forward

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// framings are answers with what a client must make of them.
var framings = []struct {
	name, method, raw string
	body              string
	kind              error // of the failure, of send or of next
	reused            bool
}{
	{"by length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", nil, true},
	{"an empty body", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", nil, true},
	{"chunked", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n2\r\n, \r\n0\r\n\r\n", "hello, ", nil, true},
	{"chunked, with trailers", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-T: 1\r\n\r\n", "x", nil, true},
	{"by the end of the connection", "GET", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", nil, false},
	{"HTTP/1.0 by the end of the connection", "GET", "HTTP/1.0 200 OK\r\n\r\nhello", "hello", nil, false},
	{"HTTP/1.0 by length", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", nil, false},
	{"HTTP/1.0 that stays open", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", "hello", nil, true},
	{"a worker that wants to close", "GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello", nil, false},
	{"204 has no body", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", nil, true},
	{"304 has no body, whatever it declares", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", "", nil, true},
	{"the answer to HEAD has no body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "", nil, true},
	{"100 is swallowed", "POST", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", nil, true},
	{"lines that end with LF alone", "GET", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", "x", nil, true},
	{"cut by length", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "hel", errBody, false},
	{"cut in a chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "hel", errBody, false},
	{"cut before the last chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "hello", errBody, false},
	{"a bad chunk", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\nzz\r\n", "x", errBody, false},
	{"a bad trailer", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX : 1\r\n\r\n", "", errBody, false},
	{"no HTTP", "GET", "SSH-2.0-x", "", errSend, false},
	{"cut in the head", "GET", "HTTP/1.1 200 OK\r\nContent-", "", errSend, false},
	{"101 that nobody asked for", "GET", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "", errSend, false},
	{"both lengths", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "", errSend, false},
}

// http-dataplane.md, section 9; cases C20 to C22
func TestEveryFramingIsReadToItsEnd(t *testing.T) {
	ways := []struct {
		name  string
		write func(p *peer, raw string)
	}{
		{"whole", func(p *peer, raw string) { _, _ = io.WriteString(p, raw) }},
		{"byte by byte", func(p *peer, raw string) {
			for i := range len(raw) {
				_, _ = io.WriteString(p, raw[i:i+1])
			}
		}},
	}
	for _, tt := range framings {
		for _, way := range ways {
			t.Run(tt.name+", "+way.name, func(t *testing.T) {
				s := listen(t, func(p *peer) {
					if r, _ := p.request(); r == nil {
						return
					}
					way.write(p, tt.raw)
					if tt.reused {
						p.gone() // else the end of the connection is part of the answer
					}
				})
				tr := testTransport(t)
				c := s.get()
				c.Method = tt.method
				_, body, err := exchangeOnce(tr, c)
				require.Equal(t, tt.body, body)
				if tt.kind != nil {
					require.ErrorIs(t, err, tt.kind)
				} else {
					require.NoError(t, err)
				}
				_, idle := tr.Connections()
				require.Equal(t, tt.reused, idle == 1, "the connection is kept")
			})
		}
	}
}

// Bytes behind the end that come later are TestUnsolicitedBytesEndAnIdleConnection's.
func TestBytesBehindTheEndOfAnAnswerEndTheConnection(t *testing.T) {
	for _, raw := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n\r\n",
	} {
		s := listen(t, answers(raw))
		tr := testTransport(t)
		_, body, err := exchangeOnce(tr, s.get())
		require.NoError(t, err)
		require.Equal(t, "ok", body)
		open, _ := tr.Connections()
		require.Zero(t, open)
	}
}

// case C03: no length of an event, and no length of a line, is too long.
func TestLargeBodiesArriveWhole(t *testing.T) {
	for _, size := range []int{smallSize, largeSize + 1, 65540, 8 << 20} {
		body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		for name, raw := range map[string]string{
			"by length": "HTTP/1.1 200 OK\r\nContent-Length: " + itoa(size) + "\r\n\r\n" + body,
			"chunked":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + hex(size) + "\r\n" + body + "\r\n0\r\n\r\n",
		} {
			t.Run(name+" "+itoa(size), func(t *testing.T) {
				s := listen(t, answers(raw))
				tr := testTransport(t)
				for range 2 {
					_, got, err := exchangeOnce(tr, s.get())
					require.NoError(t, err)
					require.True(t, got == body, "got %d bytes", len(got))
				}
				require.EqualValues(t, 1, s.accepted.Load())
				idle := tr.stack(address{s.Dial, DefaultPool}).pop()
				require.Len(t, idle.buf, smallSize, "an idle connection holds no large buffer")
				idle.close()
			})
		}
	}
}

func TestLongHeads(t *testing.T) {
	head := func(n int) string {
		return "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", n) + "\r\nContent-Length: 2\r\n\r\nok"
	}
	for _, n := range []int{smallSize, largeSize, 200 << 10} {
		s := listen(t, answers(head(n)))
		status, body, err := exchangeOnce(testTransport(t), s.get())
		require.NoError(t, err)
		require.Equal(t, 200, status)
		require.Equal(t, "ok", body)
	}
	s := listen(t, answers(head(maxHead)))
	_, _, err := exchangeOnce(testTransport(t), s.get())
	require.ErrorIs(t, err, errSend)
	require.ErrorIs(t, err, errHeadTooLong)
}

// Informational heads go to who asked; 100 goes to nobody.
func TestInterimHeads(t *testing.T) {
	s := listen(t, answers("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"+
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	var got []string
	c := s.get()
	c.Interim = func(status int, fields []pipeline.Field) {
		got = append(got, itoa(status))
		for _, f := range fields {
			got = append(got, f.Name+"="+f.Value)
		}
	}
	status, _, err := exchangeOnce(testTransport(t), c)
	require.NoError(t, err)
	require.Equal(t, 200, status)
	require.Equal(t, []string{"103", "Link=</a>", "102"}, got)
}

func TestTrailersComeWithTheEnd(t *testing.T) {
	s := listen(t, answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-T: 1\r\n\r\n"))
	tr := testTransport(t)
	a, err := tr.send(s.get())
	require.NoError(t, err)
	defer a.close()
	_, err = a.read()
	require.NoError(t, err)
	require.Equal(t, []pipeline.Field{{Name: "X-T", Value: "1"}}, a.Trailers())
}

// buffered spares the relay a flush for each event where several came at once.
func TestBufferedTellsWhetherNextWouldWait(t *testing.T) {
	more := make(chan struct{})
	s := listen(t, func(p *peer) {
		p.request()
		_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r")
		<-more
		_, _ = io.WriteString(p, "\nc\r\n0\r\n\r\n")
		p.gone()
	})
	a, err := testTransport(t).send(s.get())
	require.NoError(t, err)
	defer a.close()
	for _, want := range []string{"a", "b"} {
		require.True(t, a.buffered())
		piece, err := a.next()
		require.NoError(t, err)
		require.Equal(t, want, string(piece))
	}
	require.False(t, a.buffered(), "half a size line is nothing to hand out")
	close(more)
	rest, err := a.read()
	require.NoError(t, err)
	require.Equal(t, "c", rest)
	require.True(t, a.buffered(), "the end needs no waiting")
}
