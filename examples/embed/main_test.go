package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for a condition before it gives up: long, since nothing is asserted about time.
const patience = 20 * time.Second

// output is what the program has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs the program until the test ends, when it gets a SIGTERM, and waits until it is ready. It returns its URL.
func start(t *testing.T, args ...string) (url string) {
	t.Helper()
	out, done := &output{}, make(chan error, 1)
	go func() { done <- run(context.Background(), append([]string{"--port", "0"}, args...), out) }()
	require.Eventually(t, func() bool {
		_, after, _ := strings.Cut(out.String(), " on ")
		first, _, whole := strings.Cut(after, "\n")
		url = first
		return whole
	}, patience, time.Millisecond, "it prints no URL")
	t.Cleanup(func() {
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, self.Signal(syscall.SIGTERM))
		require.NoError(t, <-done)
		_, err = net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.Error(t, err, "it still listens")
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	require.Eventually(t, func() bool {
		resp, err := http.Get(url + "/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, 5*time.Millisecond, "it is never ready")
	return url
}

// ask sends a request with the key, if it is not "".
func ask(t *testing.T, method, url, key, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("X-Key", key)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(read)
}

const chat = `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`

func TestAGatewayIsAHandlerBesideOtherRoutes(t *testing.T) {
	url := start(t, "--key", "open sesame")
	tests := []struct {
		name, method, path, key, body string
		status                        int
		says                          string
	}{
		{"the program's own route", "GET", "/", "", "", http.StatusOK, "This is somebody's server.\n"},
		{"the program says who comes in", "POST", "/llm/v1/chat/completions", "sesame", chat, http.StatusUnauthorized, "X-Key is wrong\n"},
		{"who comes in is served", "POST", "/llm/v1/chat/completions", "open sesame", chat, http.StatusOK, `"object":"chat.completion"`},
		{"all routes of the gateway are there", "GET", "/llm/v1/models", "open sesame", "", http.StatusOK, `"id":"demo"`},
		{"and nothing else is below the path", "GET", "/llm/nope", "open sesame", "", http.StatusNotFound, `"code":"unknown_url"`},
		{"nor is the gateway elsewhere", "GET", "/v1/models", "open sesame", "", http.StatusNotFound, "404 page not found\n"},
		{"requests are counted by the gateway's own paths", "GET", "/metrics", "", "", http.StatusOK, `smg_http_requests_total{method="POST",path="/v1/chat/completions"} 1`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, answer := ask(t, tt.method, url+tt.path, tt.key, tt.body)
			require.Equal(t, tt.status, status, answer)
			require.Contains(t, answer, tt.says)
		})
	}
}

func TestAClientThatLeavesStopsTheEngine(t *testing.T) {
	e := engine.Start(t, engine.Config{Models: []string{"demo"}, ITL: time.Hour})
	url := start(t, "--worker", e.URL)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	body := strings.NewReader(`{"model":"demo","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/llm/v1/chat/completions", body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Key", "secret")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = resp.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	require.EqualValues(t, 1, e.State().InFlight)
	leave()
	require.Eventually(t, func() bool { return e.State().InFlight == 0 }, patience, time.Millisecond, "the engine goes on")
}

func TestAConfigurationThatIsWrongIsRefused(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), []string{"--worker", "ftp://a"}, io.Discard), "invalid --worker-urls: 'ftp://a': ")
}
