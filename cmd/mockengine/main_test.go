package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
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

// start runs the program until the test ends and returns the URLs that it prints.
func start(t *testing.T, count int, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, args, w, &stderr)
		_ = w.Close()
	}()
	t.Cleanup(func() {
		cancel()
		require.Equal(t, 0, <-done, stderr.String())
	})
	var urls []string
	lines := bufio.NewScanner(r)
	for len(urls) < count && lines.Scan() {
		urls = append(urls, lines.Text())
	}
	require.Len(t, urls, count, stderr.String())
	return urls
}

func ask(t *testing.T, url, key string) (int, string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	req, err := http.NewRequest(http.MethodPost, url+"/v1/completions", strings.NewReader(`{"prompt":"x","model":"b"}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestSeveralEnginesHaveNumberedNames(t *testing.T) {
	urls := start(t, 3, "--engine", "vllm", "--count", "3", "--name", "W", "--model", "a", "--model", "b", "--api-key", "k1",
		"--reply-tokens", "2", "--ttft", "1ms", "--itl", "1ms", "--keep-requests", "0")
	for i, url := range urls {
		status, body := ask(t, url, "k1")
		require.Equal(t, 200, status, body)
		require.Contains(t, body, fmt.Sprintf(`"id":"W-%d-1"`, i+1))
		require.Contains(t, body, `"completion_tokens":2`)
		status, _ = ask(t, url, "k2")
		require.Equal(t, 401, status)
	}
}

func TestAnEngineWithoutANameHasThatOfItsPort(t *testing.T) {
	url := start(t, 1)[0]
	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	_, body := ask(t, url, "")
	require.Contains(t, body, `"id":"mock-`+port+`-1"`)
}

func TestUsageErrors(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{"an unknown flag", []string{"--nope"}},
		{"an unknown engine", []string{"--engine", "trt"}},
		{"no engines", []string{"--count", "0"}},
		{"a model of negative speed", []string{"--prefill-tps=-1"}},
		{"a cache of less than a page", []string{"--kv-tokens", "8"}},
		{"fixed times beside a model", []string{"--ttft", "1ms", "--max-running", "4"}},
		{"a port out of range", []string{"--port", "65535", "--count", "2"}},
		{"a reply without tokens", []string{"--reply-tokens", "0"}},
		{"a negative time", []string{"--itl", "-1ms"}},
		{"no time", []string{"--ttft", "fast"}},
		{"a negative log", []string{"--keep-requests", "-1"}},
		{"an argument", []string{"x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, 2, run(t.Context(), tt.args, &stdout, &stderr))
			require.NotEmpty(t, stderr.String())
			require.Empty(t, stdout.String())
		})
	}
}

func TestATakenPortIsAnError(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	var stdout, stderr bytes.Buffer
	args := []string{"--port", fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)}
	require.Equal(t, 1, run(t.Context(), args, &stdout, &stderr))
	require.Contains(t, stderr.String(), "in use")
}

func TestASignalBeforeTheFirstConnectionEndsItToo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, 0, run(ctx, []string{"--count", "3"}, io.Discard, io.Discard))
}

// One flag of the model is enough for one, with the defaults of the others; without, there is none.
func TestTheFlagsOfTheModelMakeOne(t *testing.T) {
	require.Nil(t, (&Speed{}).model(time.Millisecond))
	c := (&Speed{MaxRunning: 7}).model(time.Millisecond).Complete()
	require.Equal(t, 7, c.MaxRunning)
	require.Equal(t, time.Millisecond, c.ITL)
	require.Equal(t, 16_000, c.PrefillTPS)

	f := flags{Count: 2, Seed: 5}
	require.Equal(t, []uint64{5, 6}, []uint64{f.seed(0), f.seed(1)}, "each engine draws for itself")
	require.Zero(t, (&flags{Count: 2}).seed(1))
}
