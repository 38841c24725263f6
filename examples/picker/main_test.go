package main

import (
	"bytes"
	"context"
	"encoding/json"
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
		resp, err := http.Get(url + "/readiness")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, 5*time.Millisecond, "it is never ready")
	return url
}

// ask sends a request and returns what came of it.
func ask(t *testing.T, method, url, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(read)
}

const (
	path = "/v1/chat/completions"
	chat = `{"model":"demo","messages":[{"role":"user","content":"hi"}]}`
)

// picked asks for a choice.
func picked(t *testing.T, url string) (c choice) {
	t.Helper()
	status, answer := ask(t, http.MethodPost, url, chat)
	require.Equal(t, http.StatusOK, status, answer)
	require.NoError(t, json.Unmarshal([]byte(answer), &c))
	require.Equal(t, "demo", c.Worker.Model)
	return c
}

// startTwo runs the picker in front of two engines, and waits until both are registered.
func startTwo(t *testing.T) (url string, engines []*engine.Running) {
	t.Helper()
	engines = []*engine.Running{engine.Start(t, engine.Config{Models: []string{"demo"}}), engine.Start(t, engine.Config{Models: []string{"demo"}})}
	url = start(t, "--policy", "round_robin", "--worker", engines[0].URL, "--worker", engines[1].URL)
	require.Eventually(t, func() bool {
		_, answer := ask(t, http.MethodGet, url+"/workers", "")
		return strings.Count(answer, `"is_healthy":true`) == 2
	}, patience, 5*time.Millisecond, "not all workers come")
	return url, engines
}

func TestChoicesTakeTurnsAndNothingIsForwarded(t *testing.T) {
	url, engines := startTwo(t)
	turns := map[string]int{}
	for range 6 {
		turns[picked(t, url+path).Worker.URL]++
	}
	require.Equal(t, map[string]int{engines[0].URL: 3, engines[1].URL: 3}, turns)
	for _, e := range engines {
		for _, r := range e.Requests() {
			require.NotEqual(t, http.MethodPost, r.Method)
		}
	}
}

// DESIGN.md section 3, "Explaining"
func TestAskingWhyBooksNothing(t *testing.T) {
	url, _ := startTwo(t)
	first := picked(t, url+path)
	require.False(t, first.DryRun)
	why := picked(t, url+path+"?explain")
	require.True(t, why.DryRun)
	require.NotEqual(t, first.Worker, why.Worker, "it is the other's turn")
	require.Equal(t, why, picked(t, url+path+"?explain"), "and stays so")
	require.Equal(t, why.Worker, picked(t, url+path).Worker)

	status, _ := ask(t, http.MethodDelete, url+"/workers/"+first.Worker.ID, "")
	require.Equal(t, http.StatusAccepted, status)
	why = picked(t, url+path+"?explain")
	require.Equal(t, []leftOut{{first.Worker.URL, "available", "draining"}}, why.LeftOut)
}

func TestWhatCannotBePickedIsRefusedAsTheGatewayWould(t *testing.T) {
	url, _ := startTwo(t)
	status, answer := ask(t, http.MethodPost, url+path, `{"model":"other","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, answer, `"code":"model_not_found"`)
	status, answer = ask(t, http.MethodPost, url+"/v1/messages", `{"model":"demo"}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, answer, `{"type":"error","error":{"type":"invalid_request_error"`)
}

func TestItBringsItsOwnEngines(t *testing.T) {
	url := start(t)
	first := picked(t, url+path).Worker
	require.Eventually(t, func() bool { return picked(t, url+path).Worker != first }, patience, 5*time.Millisecond, "there is no other one")
}
