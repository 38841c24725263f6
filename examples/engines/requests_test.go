package engines_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
)

// patience is for what takes moments on a quiet machine.
const patience = 2 * time.Minute

// waitUntil returns once a condition holds. Unlike require.Eventually it asks in the test's own goroutine, so that the condition may fail the test.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(50 * time.Millisecond); !holds(); <-tick.C {
		require.True(t, time.Now().Before(deadline), "not after %s: %s", patience, what)
	}
}

// answer is a response that has been read.
type answer struct {
	status      int
	contentType string
	worker      string // the URL of the worker that smg says has answered
	body        string
}

func get(t *testing.T, url string) answer { return ask(t, http.MethodGet, url, "") }

func post(t *testing.T, url, body string) answer { return ask(t, http.MethodPost, url, body) }

func ask(t *testing.T, method, url, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp := send(ctx, t, method, url, body)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err, url)
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("X-Smg-Routed-Worker-Id"), string(text)}
}

// send returns a response whose body the caller reads and closes.
func send(ctx context.Context, t *testing.T, method, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return resp
}

// stream is a chat that is being received.
type stream struct {
	resp   *http.Response
	lines  *bufio.Reader
	worker string
	leave  context.CancelFunc
}

// chat begins a stream and reads the first events of it.
func chat(t *testing.T, base, name string, maxTokens int) *stream {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	t.Cleanup(leave)
	resp := send(ctx, t, http.MethodPost, base+"/v1/chat/completions", chatBody(name, maxTokens, true))
	t.Cleanup(func() { _ = resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	s := &stream{resp, bufio.NewReader(resp.Body), resp.Header.Get("X-Smg-Routed-Worker-Id"), leave}
	for events := 0; events < 5; {
		line, err := s.lines.ReadString('\n')
		require.NoError(t, err)
		if strings.HasPrefix(line, "data: ") {
			events++
		}
	}
	return s
}

// rest is what still comes, and how it ended: nil if the response was whole.
func (s *stream) rest() (string, error) {
	text, err := io.ReadAll(s.lines)
	return string(text), err
}

func chatBody(name string, maxTokens int, streamed bool) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}],"max_tokens":%d,"temperature":0,"stream":%t}`, name, maxTokens, streamed)
}

// content is the text of an answer to a chat.
func content(t *testing.T, a answer) string {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &reply), a.body)
	require.Len(t, reply.Choices, 1)
	return reply.Choices[0].Message.Content
}

// sample is the sum of one metric's samples at url, of those alone whose label worker_addr is addr if that is not empty.
func sample(t *testing.T, url, metric, addr string) (sum float64, found bool) {
	t.Helper()
	page := get(t, url)
	require.Equal(t, http.StatusOK, page.status)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page.body))
	require.NoError(t, err)
	for _, m := range families[metric].GetMetric() {
		here := addr == ""
		for _, l := range m.Label {
			here = here || l.GetName() == "worker_addr" && l.GetValue() == addr
		}
		if here {
			sum, found = sum+m.GetGauge().GetValue()+m.GetCounter().GetValue(), true
		}
	}
	return sum, found
}
