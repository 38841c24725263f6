package forward

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

func itoa(n int) string { return strconv.Itoa(n) }
func hex(n int) string  { return strconv.FormatInt(int64(n), 16) }

// http-dataplane.md, section 6; cases C17, C18, C20
func TestRequestHead(t *testing.T) {
	field := func(name, value string) pipeline.Field { return pipeline.Field{Name: name, Value: value} }
	upload := strings.NewReader("x")
	tests := []struct {
		name, prefix string
		call         call
		want         string // "" for a request that cannot be built
	}{
		{"GET has no framing", "", call{Method: "GET", Path: "/v1/models"}, "GET /v1/models HTTP/1.1\r\nHost: w:1\r\n\r\n"},
		{"POST without body says so", "", call{Method: "POST", Path: "/f"}, "POST /f HTTP/1.1\r\nHost: w:1\r\nContent-Length: 0\r\n\r\n"},
		{"a prefix stands in front", "/base", call{Method: "GET", Path: "/x?y=z"}, "GET /base/x?y=z HTTP/1.1\r\nHost: w:1\r\n\r\n"},
		{"no path is the root", "", call{Method: "GET"}, "GET / HTTP/1.1\r\nHost: w:1\r\n\r\n"},
		{
			"a body, and the fields as they are", "",
			call{Method: "POST", Path: "/f", Body: []byte("{}"), Fields: []pipeline.Field{field("x-a", "1"), field("X-A", "2")}},
			"POST /f HTTP/1.1\r\nHost: w:1\r\nx-a: 1\r\nX-A: 2\r\nContent-Length: 2\r\n\r\n{}",
		},
		{
			"there is one Host and one framing, whatever the caller says", "",
			call{Method: "POST", Path: "/f", Body: []byte("{}"), Fields: []pipeline.Field{
				field("host", "gw"), field("content-length", "7"), field("Transfer-Encoding", "chunked"),
				field("Expect", "100-continue"), field("connection", "close"), field("Trailer", "X"),
			}},
			"POST /f HTTP/1.1\r\nHost: w:1\r\nContent-Length: 2\r\n\r\n{}",
		},
		{"an upload is chunked", "", call{Method: "POST", Path: "/f", Upload: upload}, "POST /f HTTP/1.1\r\nHost: w:1\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"an upload of known length is not", "", call{Method: "POST", Path: "/f", Upload: upload, UploadLength: 9}, "POST /f HTTP/1.1\r\nHost: w:1\r\nContent-Length: 9\r\n\r\n"},
		{"a line end in a value", "", call{Method: "GET", Path: "/", Fields: []pipeline.Field{field("x-a", "1\r\nX-B: 2")}}, ""},
		{"a space in a name", "", call{Method: "GET", Path: "/", Fields: []pipeline.Field{field("x a", "1")}}, ""},
		{"a space in the path", "", call{Method: "GET", Path: "/a b"}, ""},
		{"a line end in the path", "", call{Method: "GET", Path: "/a\r\nX: y"}, ""},
		{"no method", "", call{Path: "/"}, ""},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			tt.call.Endpoint = &workers.Endpoint{Scheme: "http", Host: "w:1", Prefix: tt.prefix}
			err := tt.call.render()
			require.Equal(t, tt.want == "", err != nil)
			if err == nil {
				require.Equal(t, tt.want, string(tt.call.out))
			}
		})
	}
}

func TestARequestThatCannotBeBuiltContactsNobody(t *testing.T) {
	s := listen(t, func(*peer) {})
	c := s.get()
	c.Path = "/a b"
	_, err := testTransport(t).send(c)
	require.ErrorIs(t, err, errRequest)
	require.Zero(t, s.accepted.Load())
}

func TestBodiesOfEverySizeArrive(t *testing.T) {
	for _, size := range []int{1, oneWrite, oneWrite + 1, direct, direct + 1, resendLimit, 12 << 20} {
		t.Run(itoa(size), func(t *testing.T) {
			bodies := make(chan string, 2)
			s := listen(t, func(p *peer) {
				for {
					r, body := p.request()
					if r == nil {
						return
					}
					bodies <- string(body)
					_, _ = p.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				}
			})
			tr := testTransport(t)
			body := strings.Repeat("0123456789abcdef", size/16+1)[:size]
			for range 2 {
				_, _, err := exchangeOnce(tr, s.post(body))
				require.NoError(t, err)
				require.True(t, body == <-bodies)
			}
			require.EqualValues(t, 1, s.accepted.Load(), "the connection is used again")
		})
	}
}
