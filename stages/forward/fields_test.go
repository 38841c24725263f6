package forward

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// recorded is a server that answers, and hands out the header lines of each request.
func recorded(t *testing.T, answer string) (s *rawServer, heads chan string) {
	heads = make(chan string, 8)
	s = listen(t, func(p *peer) {
		var head strings.Builder
		for {
			line, err := p.in.ReadString('\n')
			if err != nil {
				return
			}
			if head.WriteString(line); line != "\r\n" {
				continue
			}
			if strings.Contains(head.String(), "chunked") {
				readUntil(p, "0\r\n\r\n")
			} else if strings.Contains(head.String(), "Content-Length") {
				readUntil(p, "}")
			}
			heads <- head.String()
			head.Reset()
			if _, err := p.Write([]byte(answer)); err != nil {
				return
			}
		}
	})
	return s, heads
}

// readUntil reads up to an end that the test knows.
func readUntil(p *peer, end string) string {
	var body []byte
	for !strings.HasSuffix(string(body), end) {
		b, err := p.in.ReadByte()
		if err != nil {
			break
		}
		body = append(body, b)
	}
	return string(body)
}

// lines are the values of a header field on the wire, in any case.
func lines(head, name string) []string {
	var values []string
	for line := range strings.Lines(head) {
		if n, v, found := strings.Cut(line, ":"); found && strings.EqualFold(n, name) {
			values = append(values, strings.TrimSpace(v))
		}
	}
	return values
}

// http-dataplane.md, section 6; case C21, the request's side
func TestAWorkerGetsTheHeaderFieldsOnTheList(t *testing.T) {
	tests := []struct {
		name     string // of the field
		values   []string
		streamed bool // the body is
		passes   bool
	}{
		{"Authorization", []string{"Bearer u"}, false, true},
		{"Anthropic-Version", []string{"2023-06-01"}, false, true},
		{"Anthropic-Beta", []string{"a", "b"}, false, true},
		{"X-Request-Id", []string{"r1"}, false, true},
		{"X-Request-Id-Span", []string{"7"}, false, true},
		{"X-Correlation-Id", []string{"c", "d"}, false, true},
		{"Traceparent", []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, false, true},
		{"Tracestate", []string{"a=1"}, false, true},
		{"X-Smg-Routing-Key", []string{"k"}, false, true},
		{"Content-Encoding", []string{"gzip"}, true, true},

		{"Content-Encoding", []string{"gzip"}, false, false}, // what is sent was read, and may have been edited
		{"X-Request-Idx", []string{"1"}, false, false},
		{"X-Smg-Target-Worker", []string{"0"}, false, false},
		{"X-Smg-Routing-Tokens", []string{"1,2"}, false, false},
		{"X-Smg-Tenant-Id", []string{"t"}, false, false},
		{"X-Api-Key", []string{"z"}, false, false},
		{"X-Custom", []string{"1"}, false, false},
		{"Cookie", []string{"a=b"}, false, false},
		{"Accept", []string{"text/event-stream"}, false, false},
		{"User-Agent", []string{"curl"}, false, false},
		{"Expect", []string{"100-continue"}, false, false},
		{"Te", []string{"trailers"}, false, false},
		{"Connection", []string{"X-Bar"}, false, false},
		{"X-Bar", []string{"1"}, false, false},
		{"Keep-Alive", []string{"timeout=5"}, false, false},
		{"Proxy-Authorization", []string{"x"}, false, false},
		{"Upgrade", []string{"h2c"}, false, false},
		{"X-Forwarded-Host", []string{"gw"}, false, false},
		{"Forwarded", []string{"for=1"}, false, false},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s, heads := recorded(t, okAnswer)
		for _, tt := range tests {
			newTrip(t, s, rt, func(r *trip) {
				r.header[tt.name] = tt.values
				if tt.streamed {
					r.body = strings.NewReader(`{}`)
				}
			}).run()
			want := tt.values
			if !tt.passes {
				want = nil
			}
			require.Equal(t, want, lines(<-heads, tt.name), tt.name)
		}
	})
}

// http-dataplane.md, sections 3.4 and 6; case C18: what smg says itself.
func TestARequestIsFramedForItsWorker(t *testing.T) {
	tests := []struct {
		name, method, body string // "stream": an upload
		length, coding     []string
		kind               []string
	}{
		{"a body that was read", "POST", `{"text":"hi"}`, []string{"13"}, nil, []string{"application/json"}},
		{"a body that is streamed", "POST", "stream", nil, []string{"chunked"}, []string{"application/json"}},
		{"no body", "GET", "", nil, nil, nil},
	}
	onBoth(t, func(t *testing.T, rt http.RoundTripper) {
		s, heads := recorded(t, okAnswer)
		for _, tt := range tests {
			newTrip(t, s, rt, func(r *trip) {
				r.method = tt.method
				r.header["Host"] = []string{"gw.example.com"}
				r.header["Content-Type"] = []string{"text/plain"}
				r.header["Content-Length"], r.header["Transfer-Encoding"] = []string{"99"}, []string{"gzip, chunked"}
				r.header["Accept-Encoding"] = []string{"br"}
				if r.x.Body.Bytes = []byte(tt.body); tt.body == "stream" {
					r.body = strings.NewReader(`{"text":"hi"}`)
				}
			}).run()
			head := <-heads
			require.True(t, strings.HasPrefix(head, tt.method+" /generate HTTP/1.1\r\n"), "the query is not forwarded: %s", head)
			require.Equal(t, []string{s.Host}, lines(head, "Host"), tt.name)
			require.Equal(t, tt.length, lines(head, "Content-Length"), tt.name)
			require.Equal(t, tt.coding, lines(head, "Transfer-Encoding"), tt.name)
			require.Equal(t, tt.kind, lines(head, "Content-Type"), tt.name)
			require.NotContains(t, lines(head, "Accept-Encoding"), "br", tt.name)
			require.NotContains(t, lines(head, "Accept-Encoding"), "gzip", tt.name)
		}
	})
}

// A route may have another path on the worker; a worker may have a path in front.
func TestTheWorkersPath(t *testing.T) {
	s, heads := recorded(t, okAnswer)
	tr := testTransport(t)
	newTrip(t, s, tr, func(r *trip) { r.settings.Path = "/v1/rerank" }).run()
	require.True(t, strings.HasPrefix(<-heads, "POST /v1/rerank HTTP/1.1\r\n"))

	r := newTrip(t, s, tr, nil)
	r.worker = workerAt(t, "http://"+s.Dial+"/base", "", r.limits)
	r.run()
	require.True(t, strings.HasPrefix(<-heads, "POST /base/generate HTTP/1.1\r\n"))
}

// http-dataplane.md, section 6; DECISIONS.md row 39; case C19
func TestAWorkerGetsOneAuthorization(t *testing.T) {
	tests := []struct {
		name   string
		client []string
		key    string
		want   []string
	}{
		{"the client's", []string{"Bearer u"}, "", []string{"Bearer u"}},
		{"the client's wins over the worker's", []string{"Bearer u"}, "w", []string{"Bearer u"}},
		{"the worker's where the client has none", nil, "w", []string{"Bearer w"}},
		{"the first of the client's two", []string{"Bearer u", "Bearer v"}, "w", []string{"Bearer u"}},
		{"none where nobody has one", nil, "", nil},
	}
	s, heads := recorded(t, okAnswer)
	for _, tt := range tests {
		newTrip(t, s, testTransport(t), func(r *trip) {
			r.key = tt.key
			if tt.client != nil {
				r.header["Authorization"] = tt.client
			}
		}).run()
		require.Equal(t, tt.want, lines(<-heads, "Authorization"), tt.name)
	}
}

// http-dataplane.md, section 9.1; case C21. Each name in lower, upper and the usual case, in a whole answer, a stream and one
// that is held.
func TestResponseFieldsThatEndAtTheGateway(t *testing.T) {
	ends := []string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer", "Trailers",
		"Upgrade", "Host", "X-SMG-Error-Code", "X-Request-Id", "X-Foo", "X-Bar",
	}
	cases := []func(string) string{strings.ToLower, strings.ToUpper, func(s string) string { return s }}
	for _, spell := range cases {
		head := spell("Connection") + ": keep-alive, x-foo\r\n" + spell("Connection") + ": X-BAR\r\n"
		for _, name := range ends[1:] {
			head += spell(name) + ": 1\r\n"
		}
		head += spell("X-SMG-Routed-Worker-Id") + ": http://elsewhere\r\n" +
			"X-Keep: yes\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Encoding: gzip\r\nretry-after: 7\r\n"
		answers := map[string]string{
			"whole":  okHead + head + "Content-Type: application/json\r\n" + spell("Content-Length") + ": 2\r\n\r\n{}",
			"stream": okHead + head + "Content-Type: text/event-stream\r\n" + spell("Transfer-Encoding") + ": chunked\r\n\r\n" + chunk(event1) + "0\r\n\r\n",
			"held":   "HTTP/1.1 503 Busy\r\n" + head + "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		}
		for kind, raw := range answers {
			onBoth(t, func(t *testing.T, rt http.RoundTripper) {
				s := listen(t, once(raw))
				r := newTrip(t, s, rt, func(r *trip) { r.x.Judge = holding(503) }).run()
				for _, name := range append(ends, "Content-Length", "Transfer-Encoding") {
					require.Empty(t, r.all(name), "%s, %s", kind, name)
				}
				require.Equal(t, []string{"http://" + s.Dial}, r.all("x-smg-routed-worker-id"), kind)
				require.Equal(t, []string{"yes"}, r.all("X-Keep"), kind)
				require.Equal(t, []string{"a=1", "b=2"}, r.all("Set-Cookie"), kind)
				require.Equal(t, []string{"gzip"}, r.all("Content-Encoding"), kind)
				require.Equal(t, []string{"7"}, r.all("Retry-After"), kind)
			})
		}
	}
}

// holding is a judge that wants one status back.
type holding int

func (h holding) Hold(_ *pipeline.Exchange, _ *pipeline.Leg, status int) bool {
	return status == int(h)
}

// A passage is used again: the room for the field that smg adds is made once.
func TestFilteringAHeadKeepsItsRoom(t *testing.T) {
	w := workerAt(t, "http://127.0.0.1:1", "", workers.DefaultHTTPPoolSettings())
	var a answer
	a.Fields = make([]pipeline.Field, 4)
	filterHead(&a, w)
	require.GreaterOrEqual(t, cap(a.Fields), 5, "the answer keeps what was grown")
	require.Equal(t, pipeline.Field{Name: "X-Smg-Routed-Worker-Id", Value: w.URL()}, a.Fields[len(a.Fields)-1])
}

func FuzzEndToEnd(f *testing.F) {
	f.Add("Connection", "x-foo, close", "X-Foo")
	f.Add("Content-Length", "", "X-SMG-Error-Code")
	f.Fuzz(func(t *testing.T, first, connection, second string) {
		fields := []pipeline.Field{{Name: first, Value: "1"}, {Name: "X-Keep", Value: "2"}, {Name: second, Value: "3"}}
		for _, kept := range endToEnd(slices.Clone(fields), connection) {
			if hopByHop(kept.Name) || hasToken(connection, kept.Name) || !slices.Contains(fields, kept) {
				t.Fatalf("%v was kept", kept)
			}
		}
	})
}
