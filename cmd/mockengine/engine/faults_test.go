package engine

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const streamed = `{"prompt":"hi","stream":true,"max_tokens":4}`

func ptr(n int) *int { return &n }

func TestFaultsThatAnswer(t *testing.T) {
	tests := []struct {
		name, fault  string
		status       int
		header, body string // parts of them
	}{
		{"a status alone has an error as its body", `{"status":503}`, 503, "", `"code":503`},
		{"Retry-After in seconds", `{"status":429,"retry_after":7}`, 429, "Retry-After: 7", ""},
		{"Retry-After as a date", `{"status":503,"retry_after":"Wed, 21 Oct 2037 07:28:00 GMT"}`, 503, "Retry-After: Wed, 21 Oct 2037 07:28:00 GMT", ""},
		{"a body as text", `{"body":"{\"a\":NaN}"}`, 200, "Content-Type: application/json", `{"a":NaN}`},
		{"a body as JSON", `{"status":429,"body":{"error":{"message":"slow down"}}}`, 429, "", `{"error":{"message":"slow down"}}`},
		{"headers as an object", `{"headers":{"X-A":"1","Content-Type":"text/plain"},"body":"x"}`, 200, "Content-Type: text/plain", "x"},
		{"headers beside the engine's own answer", `{"headers":["X-A: 1"]}`, 200, "X-A: 1", `"object":"chat.completion"`},
		{"a body of chunks", `{"chunks":["data: a\r","\n\r\n","data: [DONE]\n\n"]}`, 200, "Content-Type: text/event-stream; charset=utf-8", "data: a\r\n\r\ndata: [DONE]\n\n"},
		{"chunks with a status", `{"status":500,"chunks":["x"]}`, 500, "", "x"},
		{"half a body", `{"malformed":true}`, 200, "", `{"id":"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{})
			resp, body := post(t, e.URL+"/mock/faults", tt.fault)
			require.Equal(t, 200, resp.StatusCode, body)
			resp, body = post(t, e.URL+"/v1/chat/completions", hello)
			require.Equal(t, tt.status, resp.StatusCode)
			var head strings.Builder
			require.NoError(t, resp.Header.Write(&head))
			require.Contains(t, head.String(), tt.header)
			require.Contains(t, body, tt.body)
			if tt.name == "half a body" {
				require.False(t, strings.HasSuffix(body, "}"))
			}
			resp, _ = get(t, e.URL+"/health")
			require.Equal(t, 200, resp.StatusCode, "probes go on succeeding")
		})
	}
}

func TestRepeatedHeadersStayApart(t *testing.T) {
	e := Start(t, Config{})
	for _, headers := range []string{`{"Set-Cookie":["a=1","b=2"]}`, `["Set-Cookie: a=1","Set-Cookie: b=2"]`} {
		post(t, e.URL+"/mock/faults", `{"headers":`+headers+`}`)
		resp, _ := post(t, e.URL+"/v1/chat/completions", hello)
		require.Equal(t, []string{"a=1", "b=2"}, resp.Header.Values("Set-Cookie"))
	}
}

func TestFaultsThatBreakTheConnection(t *testing.T) {
	tests := []struct {
		name  string
		fault Fault
		body  string
		got   string // what arrives ends with it, and nothing follows
		want  error
	}{
		{"closed without an answer", Fault{Close: true}, streamed, "", io.EOF},
		{"reset without an answer", Fault{Reset: true}, streamed, "", syscall.ECONNRESET},
		{"cut after two events", Fault{CutAfterEvents: ptr(2)}, streamed, "\n\n\r\n", io.EOF},
		{"cut after no event", Fault{CutAfterEvents: ptr(0)}, streamed, "\r\n\r\n", io.EOF},
		{"cut in the first event", Fault{CutAfterBytes: ptr(9)}, streamed, "\r\ndata: {\"i", io.EOF},
		{"cut after all events, before the end", Fault{CutAfterEvents: ptr(5)}, streamed, "data: [DONE]\n\n\r\n", io.EOF},
		{"a body cut", Fault{CutAfterBytes: ptr(6)}, `{"prompt":"hi"}`, "\r\n\r\n" + `{"id":`, io.EOF},
		{"a body cut before it begins", Fault{CutAfterBytes: ptr(0)}, `{"prompt":"hi"}`, "\r\n\r\n", io.EOF},
		{"a size that is no number", Fault{Malformed: GarbledChunk}, streamed, "\n\n\r\nzz\r\n", io.EOF},
		{"a status line that is none", Fault{Malformed: GarbledHead}, streamed, "no header line\r\n\r\n", io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{})
			e.SetFaults(tt.fault)
			nc, r := dial(t, e)
			send(t, nc, rawPost("/v1/completions", tt.body))
			var all []byte
			var err error
			for err == nil {
				var b byte
				if b, err = r.ReadByte(); err == nil {
					all = append(all, b)
				}
			}
			require.True(t, errors.Is(err, tt.want), "%v", err)
			require.True(t, strings.HasSuffix(string(all), tt.got), "%q", all)
			require.Equal(t, tt.got == "", len(all) == 0)
			e.SetFaults()
			resp, _ := post(t, e.URL+"/v1/completions", tt.body)
			require.Equal(t, 200, resp.StatusCode)
		})
	}
}

func TestACutResetsWhenAsked(t *testing.T) {
	e := Start(t, Config{})
	e.SetFaults(Fault{CutAfterEvents: ptr(1), Reset: true})
	nc, r := dial(t, e)
	send(t, nc, rawPost("/v1/completions", streamed))
	_, err := io.Copy(io.Discard, r)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestHangsLastUntilThePeerLeaves(t *testing.T) {
	tests := []struct {
		name  string
		fault Fault
		body  string
		got   string
	}{
		{"before the head", Fault{HangHeadMillis: -1}, streamed, ""},
		{"after the head of a stream", Fault{HangAfterEvents: ptr(0)}, streamed, "\r\n\r\n"},
		{"after two events", Fault{HangAfterEvents: ptr(2)}, streamed, "\n\n\r\n"},
		{"before the end of a stream", Fault{HangAfterEvents: ptr(5)}, streamed, "data: [DONE]\n\n\r\n"},
		{"after the head of a body", Fault{HangAfterEvents: ptr(0)}, `{"prompt":"hi"}`, "\r\n\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{})
			e.SetFaults(tt.fault)
			nc, r := dial(t, e)
			send(t, nc, rawPost("/v1/completions", tt.body))
			eventually(t, "in flight", func() bool { return e.State().InFlight == 1 })
			all := ""
			for !strings.HasSuffix(all, tt.got) || all == "" && tt.got != "" {
				b, err := r.ReadByte()
				require.NoError(t, err)
				all += string(b)
			}
			require.EqualValues(t, 1, e.State().InFlight)
			require.NoError(t, nc.Close())
			eventually(t, "over", func() bool { return e.State().InFlight == 0 })
			require.NotNil(t, e.Requests()[0].ClosedAt)
		})
	}
}

func TestHangsMayEnd(t *testing.T) {
	e := Start(t, Config{})
	for _, f := range []Fault{{HangHeadMillis: 1}, {HangAfterEvents: ptr(1), HangMillis: 1}, {TTFTMillis: 1, ITLMillis: 1}} {
		e.SetFaults(f)
		_, body := post(t, e.URL+"/v1/completions", streamed)
		require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
		_, body = post(t, e.URL+"/v1/completions", `{"prompt":"hi"}`)
		require.Equal(t, "text_completion", decode(t, body)["object"])
	}
}

// cases.md, C39
func TestCloseAfterHeadHitsSecondRequestsOfAConnection(t *testing.T) {
	e := Start(t, Config{})
	e.SetFaults(Fault{CloseAfterHead: true})
	for range 3 {
		nc, r := dial(t, e)
		send(t, nc, rawPost("/v1/chat/completions", hello))
		resp, _ := readAnswer(t, r)
		require.Equal(t, 200, resp.StatusCode, "the first request of a connection is answered")
		head, _, _ := strings.Cut(rawPost("/v1/chat/completions", hello), "\r\n\r\n")
		send(t, nc, head+"\r\n\r\n") // without its body: the head is enough
		_, err := r.ReadByte()
		require.ErrorIs(t, err, io.EOF)
	}
	require.Len(t, e.Requests(), 6)
	require.EqualValues(t, 3, e.State().Total)
}

func TestAMalformedStreamHasOneBadEvent(t *testing.T) {
	e := Start(t, Config{})
	e.SetFaults(Fault{Malformed: GarbledJSON})
	_, body := post(t, e.URL+"/v1/completions", streamed)
	_, data := events(t, body)
	require.Len(t, data, 4+1)
	decode(t, data[0])
	require.False(t, strings.HasSuffix(data[1], "}"))
	decode(t, data[2])
}

func TestWhichRequestsAFaultHits(t *testing.T) {
	const chatPath = "/v1/chat/completions"
	tests := []struct {
		name, faults, method, path string
		hits                       []bool // of successive requests
	}{
		{"without a path, every POST", `{"status":503}`, "POST", chatPath, []bool{true, true}},
		{"without a path, no GET", `{"status":503}`, "GET", "/health", []bool{false}},
		{"with a path, that path alone", `{"status":503,"path":"/health"}`, "GET", "/health", []bool{true}},
		{"with a path, no other", `{"status":503,"path":"/health"}`, "POST", chatPath, []bool{false}},
		{"the query is no part of the path", `{"status":503,"path":"/v1/loads"}`, "GET", "/v1/loads?include=core", []bool{true}},
		{"a star makes it a prefix", `{"status":503,"path":"/v1/*"}`, "GET", "/v1/models", []bool{true}},
		{"a method alone", `{"status":503,"method":"GET"}`, "GET", "/health", []bool{true}},
		{"another method", `{"status":503,"method":"GET","path":"*"}`, "POST", chatPath, []bool{false}},
		{"so many times", `{"status":503,"count":2}`, "POST", chatPath, []bool{true, true, false, false}},
		{"the next of the list when the first is spent", `[{"status":503,"count":1},{"status":503,"count":1}]`, "POST", chatPath, []bool{true, true, false}},
		{"never by chance", `{"status":503,"probability":1e-300}`, "POST", chatPath, []bool{false, false}},
		{"always by chance", `{"status":503,"probability":1}`, "POST", chatPath, []bool{true, true}},
		{"none", `[]`, "POST", chatPath, []bool{false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{})
			resp, body := post(t, e.URL+"/mock/faults", tt.faults)
			require.Equal(t, 200, resp.StatusCode, body)
			for i, hit := range tt.hits {
				if tt.method == "GET" {
					resp, _ = get(t, e.URL+tt.path)
				} else {
					resp, _ = post(t, e.URL+tt.path, hello)
				}
				require.Equal(t, hit, resp.StatusCode == 503, "request %d: %d", i, resp.StatusCode)
			}
		})
	}
}

func TestAFaultThatIsNoneIsRefused(t *testing.T) {
	e := Start(t, Config{})
	for _, body := range []string{
		``, `{`, `{"statsu":503}`, `{"status":99}`, `{"malformed":"maybe"}`, `{"headers":{"a b":"c"}}`, `{"headers":["x"]}`,
		`{"headers":3}`, `{"retry_after":"1\r\n"}`, `{} {}`,
	} {
		resp, got := post(t, e.URL+"/mock/faults", body)
		require.Equal(t, 400, resp.StatusCode, "%s: %s", body, got)
	}
	require.Panics(t, func() { e.SetFaults(Fault{Headers: Headers{"x"}}) })
}

func FuzzParseFaults(f *testing.F) {
	f.Add([]byte(`[{"status":503,"retry_after":7,"headers":{"A":["b","c"]},"body":{"x":1},"malformed":true}]`))
	f.Add([]byte(`{"headers":["A: b"],"body":"x","cut_after_bytes":3,"chunks":["a"]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		faults, err := parseFaults(b)
		if err != nil {
			return
		}
		for i := range faults {
			for _, line := range faults[i].Headers {
				if strings.ContainsAny(line, "\r\n") {
					t.Fatalf("%q became a header line of %q", line, b)
				}
			}
		}
	})
}
