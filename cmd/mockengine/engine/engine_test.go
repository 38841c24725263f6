package engine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come, before it fails.
const patience = 10 * time.Second

// client keeps no connection, so that every request has its own and no goroutine outlives a test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}

func post(t *testing.T, url, body string) (*http.Response, string) {
	t.Helper()
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	return resp, drain(t, resp)
}

func get(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	return resp, drain(t, resp)
}

func drain(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

// decode reads JSON as a client would see it.
func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &v), body)
	return v
}

// dial opens a raw connection, which ends with the test.
func dial(t *testing.T, e *Running) (net.Conn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return nc, bufio.NewReader(nc)
}

func send(t *testing.T, nc net.Conn, raw string) {
	t.Helper()
	_, err := io.WriteString(nc, raw)
	require.NoError(t, err)
}

// readAnswer reads one response of a raw connection.
func readAnswer(t *testing.T, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	require.NoError(t, err)
	return resp, drain(t, resp)
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, time.Millisecond, what)
}

const hello = `{"model":"m1","messages":[{"role":"user","content":"hello"}]}`

// rawPost is a request as bytes.
func rawPost(path, body string) string {
	var b bytes.Buffer
	req, _ := http.NewRequest(http.MethodPost, "http://engine"+path, strings.NewReader(body))
	_ = req.Write(&b)
	return b.String()
}

func TestAnEngineIsDownAndUpAgainOnItsPort(t *testing.T) {
	e := Start(t, Config{Name: "W1"})
	resp, _ := get(t, e.URL+"/health")
	require.Equal(t, 200, resp.StatusCode)

	nc, r := dial(t, e)
	send(t, nc, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	readAnswer(t, r)
	e.Down()
	_, err := r.ReadByte()
	require.Error(t, err, "its connections are closed")
	_, err = client.Get(e.URL + "/health")
	require.Error(t, err)

	require.NoError(t, e.Up())
	resp, _ = get(t, e.URL+"/health")
	require.Equal(t, 200, resp.StatusCode)
	require.EqualValues(t, 3, e.State().Paths["/health"], "counts stay")
}

func TestDownEndsAnswersThatWait(t *testing.T) {
	e := Start(t, Config{TTFT: time.Hour})
	nc, r := dial(t, e)
	send(t, nc, rawPost("/v1/chat/completions", hello))
	eventually(t, "the request is in flight", func() bool { return e.State().InFlight == 1 })
	e.Down() // returns only when all goroutines have ended
	_, err := r.ReadByte()
	require.Error(t, err)
	require.Zero(t, e.State().InFlight)
	require.Nil(t, e.Requests()[0].ClosedAt, "it was not the peer that closed")
}

func TestTheNameIsGivenOrTheFirstPort(t *testing.T) {
	require.Equal(t, "W1", Start(t, Config{Name: "W1"}).Name())
	e := Start(t, Config{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(e.URL, "http://"))
	require.NoError(t, err)
	require.Equal(t, "mock-"+port, e.Name())
}

func TestKeepAliveAndPipelining(t *testing.T) {
	tests := []struct{ name, raw string }{
		{"two requests in one write are answered in order", rawPost("/v1/chat/completions", hello) + "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"},
		{
			"a chunked body ends where it says",
			"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n" + hello[:16] + "\r\n" +
				"2d;x=y\r\n" + hello[16:] + "\r\n0\r\nTrailer: x\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n",
		},
	}
	require.Len(t, hello, 0x10+0x2d, "the chunk sizes of the second row")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := Start(t, Config{Name: "W1"})
			nc, r := dial(t, e)
			send(t, nc, tt.raw)
			_, body := readAnswer(t, r)
			require.Equal(t, "chat.completion", decode(t, body)["object"])
			_, body = readAnswer(t, r)
			require.Equal(t, "list", decode(t, body)["object"])
			require.EqualValues(t, 1, e.State().Accepted)
			require.Equal(t, hello, string(e.Requests()[0].Body))
		})
	}
}

func TestPipelinedBehindAnAnswerThatWaits(t *testing.T) {
	e := Start(t, Config{Name: "W1", TTFT: time.Millisecond, ITL: time.Millisecond, Reply: 4})
	nc, r := dial(t, e)
	stream := rawPost("/v1/chat/completions", strings.TrimSuffix(hello, "}")+`,"stream":true}`)
	const rounds = 5
	for range rounds {
		send(t, nc, stream+rawPost("/v1/chat/completions", hello))
	}
	for range rounds {
		_, body := readAnswer(t, r)
		require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"), body)
		_, body = readAnswer(t, r)
		require.Equal(t, "chat.completion", decode(t, body)["object"])
	}
	require.Len(t, e.Requests(), 2*rounds)
}

func TestExpectIsAnsweredOnlyWhileTheBodyIsAwaited(t *testing.T) {
	e := Start(t, Config{})
	nc, r := dial(t, e)
	head, body, _ := strings.Cut(rawPost("/v1/chat/completions", hello), "\r\n\r\n")
	send(t, nc, head+"\r\nExpect: 100-continue\r\n\r\n")
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = r.ReadString('\n')
	require.NoError(t, err)
	send(t, nc, body)
	resp, _ := readAnswer(t, r)
	require.Equal(t, 200, resp.StatusCode)

	send(t, nc, head+"\r\nExpect: 100-continue\r\n\r\n"+body)
	resp, _ = readAnswer(t, r)
	require.Equal(t, 200, resp.StatusCode)
}

func TestConnectionsEndWhenAsked(t *testing.T) {
	stream := strings.TrimSuffix(hello, "}") + `,"stream":true}`
	tests := []struct{ name, raw string }{
		{"Connection: close", "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n"},
		{"HTTP/1.0", "GET /health HTTP/1.0\r\n\r\n"},
		{"a stream over HTTP/1.0 is not chunked", strings.Replace(rawPost("/v1/chat/completions", stream), "HTTP/1.1", "HTTP/1.0", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			nc, r := dial(t, Start(t, Config{}))
			send(t, nc, tt.raw)
			all, err := io.ReadAll(r)
			require.NoError(t, err)
			require.Contains(t, string(all), "connection: close\r\n")
			require.NotContains(t, string(all), "chunked")
		})
	}
}

func TestLargeBodiesArriveWhole(t *testing.T) { // larger than any buffer that is kept
	e := Start(t, Config{})
	body := `{"messages":[{"role":"user","content":"` + strings.Repeat("abcd", 1<<19) + `"}]}`
	for _, chunked := range []bool{false, true} {
		req, err := http.NewRequest(http.MethodPost, e.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		if chunked {
			req.Body, req.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		usage := decode(t, drain(t, resp))["usage"].(map[string]any)
		require.EqualValues(t, 1<<19, usage["prompt_tokens"])
		require.True(t, string(e.Requests()[0].Body) == body)
		e.ClearRequests()
	}
}
