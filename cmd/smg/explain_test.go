package main

import (
	"bytes"
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/stages/policy"
)

// asks runs smg explain with this standard input.
func asks(stdin string, args ...string) (code int, stdout, stderr string) {
	return piped(stdin, append([]string{"explain"}, args...))
}

// piped runs smg with this standard input.
func piped(stdin string, args []string) (code int, stdout, stderr string) {
	var out, failed bytes.Buffer
	c := &cli{stdin: strings.NewReader(stdin), stdout: &out, stderr: &failed}
	code = report(&failed, c.run(args))
	return code, out.String(), failed.String()
}

// gatewayFor serves a gateway in front of engines until the test ends, and waits until all of them are its workers.
func gatewayFor(t *testing.T, policy string, engines ...*engine.Running) (url string) {
	t.Helper()
	cfg := server.Default()
	cfg.Policy, cfg.StartupCheckInterval = policy, 1
	for _, e := range engines {
		cfg.WorkerURLs = append(cfg.WorkerURLs, e.URL)
	}
	g, err := server.New(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	front := httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		front.Close()
		g.Close(t.Context())
		http.DefaultClient.CloseIdleConnections()
	})
	require.True(t, allRegistered(t.Context(), front.URL, cfg.WorkerURLs))
	return front.URL
}

const question = `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`

// smg explain is the command line of POST /explain.
func TestExplainPrintsWhoWouldGetTheRequest(t *testing.T) {
	engines := []*engine.Running{engine.Start(t, engine.Config{Models: []string{"m"}}), engine.Start(t, engine.Config{Models: []string{"m"}})}
	url := gatewayFor(t, "round_robin", engines...)
	file := filepath.Join(t.TempDir(), "request.json")
	require.NoError(t, os.WriteFile(file, []byte(question), 0o600))
	for name, args := range map[string][]string{
		"from standard input": {"--url", url}, "from standard input, said so": {"--url", url, "-"}, "from a file": {"--url", url + "/", file},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := asks(question, args...)
			require.Zero(t, code, stderr)
			require.Equal(t, []string{"route", "POST", "/v1/chat/completions"}, strings.Fields(stdout)[:3])
			require.Regexp(t, `(?m)^model   m$`, stdout)
			require.Regexp(t, `(?m)^policy  round_robin$`, stdout)
			require.Regexp(t, `(?m)^choice  http://127\.0\.0\.1:\d+$`, stdout)
			require.Regexp(t, `(?m)^WORKER +SCORE +WHY$`, stdout)
			require.Equal(t, 1, strings.Count(stdout, "chosen"))
			for _, e := range engines {
				require.Contains(t, stdout, "\n"+e.URL+"  ")
			}
		})
	}
	code, stdout, _ := asks(`{"text":"x","model":"nobody"}`, "--url", url, "--route", "/generate")
	require.Zero(t, code, "that it would be refused is an answer")
	require.Regexp(t, `(?m)^choice  nobody$`, stdout)
	require.Regexp(t, `(?m)^error   404 model_not_found: `, stdout)
	require.NotContains(t, stdout, "WORKER")

	code, stdout, _ = asks(question, "--url", url, "--json")
	require.Zero(t, code)
	require.True(t, strings.HasPrefix(stdout, `{"route":"POST /v1/chat/completions","model":"m",`), stdout)
	require.True(t, strings.HasSuffix(stdout, "}\n"))
}

// That it changes nothing is shown where the gateway is: TestExplainChangesNothingWhateverThePolicy.
func TestExplainAnswersForEveryPolicy(t *testing.T) {
	engines := []*engine.Running{engine.Start(t, engine.Config{Models: []string{"m"}}), engine.Start(t, engine.Config{Models: []string{"m"}})}
	require.Len(t, policy.Names(), 11)
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			url := gatewayFor(t, name, engines...)
			first := ""
			for range 3 {
				code, stdout, stderr := asks(question, "--url", url, "-H", "X-SMG-Routing-Key: user")
				require.Zero(t, code, stderr)
				require.Contains(t, stdout, "\npolicy  "+name+"\n")
				require.Equal(t, 1, strings.Count(stdout, "chosen"), stdout)
				first = cmp.Or(first, stdout)
				if name == "round_robin" {
					require.Equal(t, first, stdout, "the rotation stands still")
				}
			}
		})
	}
}

func TestExplainSendsTheHeadersOfTheRequest(t *testing.T) {
	engines := []*engine.Running{engine.Start(t, engine.Config{Models: []string{"m"}}), engine.Start(t, engine.Config{Models: []string{"m"}})}
	url := gatewayFor(t, "consistent_hashing", engines...)
	chosen := map[string]bool{}
	for _, target := range []string{"0", "1"} {
		_, stdout, stderr := asks(question, "--url", url, "-H", "X-SMG-Target-Worker: "+target, "--header", "X-Other:1")
		require.Empty(t, stderr)
		for _, e := range engines {
			if strings.Contains(stdout, "choice  "+e.URL+"\n") {
				chosen[e.URL] = true
			}
		}
	}
	require.Len(t, chosen, 2, "each index is a worker")
	_, stdout, _ := asks(question, "--url", url, "-H", "X-SMG-Target-Worker: 2")
	require.Contains(t, stdout, "choice  nobody\n")
}

// Errors are clear: what cannot be asked, and by whom it is not answered.
func TestExplainSaysWhatIsWrong(t *testing.T) {
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	tests := []struct {
		name string
		args []string
		want string
		code int
	}{
		{"nobody listens", []string{"--url", "http://127.0.0.1:1"}, "the gateway at http://127.0.0.1:1 cannot be asked: dial tcp 127.0.0.1:1: connect: connection refused", exitFailed},
		{"a URL that is none", []string{"--url", "localhost:30000"}, "invalid --url: 'localhost:30000': must be a URL with http:// or https://", exitFailed},
		{"a header without a value", []string{"-H", "a"}, "invalid --header: 'a': must be of the form NAME:VALUE", exitFailed},
		{"no time", []string{"--timeout", "0"}, "invalid --timeout: '0': must be at least 1", exitFailed},
		{"a file that is not there", []string{"nowhere.json"}, "cannot read the request's body: open nowhere.json: no such file or directory", exitFailed},
		{"two files", []string{"a", "b"}, "unexpected argument b", exitUsage},
		{"a route that chooses nobody", []string{"--url", gatewayFor(t, "random"), "--route", "/health"}, "does not explain: No worker is chosen on the route 'POST /health'", exitFailed},
		{"a server without the route", []string{"--url", answers(404, `{"error":{"message":"Invalid URL (POST /explain)"}}`)}, "does not explain: 404 Not Found: Invalid URL (POST /explain)", exitFailed},
		{"a server that is not smg", []string{"--url", answers(200, "<html>")}, "has answered something else than an explanation: \"<html>\"", exitFailed},
		{"a server that fails", []string{"--url", answers(502, "")}, "does not explain: 502 Bad Gateway", exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := asks(question, tt.args...)
			require.Equal(t, tt.code, code)
			require.Contains(t, stderr, tt.want)
			require.True(t, strings.HasPrefix(stderr, "error: "))
			require.Empty(t, stdout)
		})
	}
}

// A score is printed with what it is made of, and who was left out with the reason.
func TestTableOfAnExplanation(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	a, b, c := stages.ExplainedWorker{ID: "1", URL: "http://a:1"}, stages.ExplainedWorker{ID: "2", URL: "http://bb:1"}, stages.ExplainedWorker{ID: "3", URL: "http://c:1"}
	var out bytes.Buffer
	require.NoError(t, writeExplanation(&out, &stages.Explanation{
		Route: "POST /generate", Policy: "least_load", Candidates: []stages.ExplainedWorker{a, b}, Choice: &b,
		Scores: []stages.ExplainedScore{
			{ExplainedWorker: a, Score: n(80.0375), Parts: map[string]*float64{"queued": n(80), "kv": n(0.0375)}},
			{ExplainedWorker: b, Score: n(1.0 / 3), Parts: map[string]*float64{"queued": nil, "kv": n(1e300)}},
		},
		LeftOut: []stages.ExplainedLeaving{
			{ExplainedWorker: c, Stage: "breaker", Reason: "open"}, {ExplainedWorker: a, Stage: "policy", Reason: "too full"},
		},
	}))
	require.Equal(t, `route   POST /generate
model   none named
policy  least_load
choice  http://bb:1

WORKER       SCORE    WHY
http://a:1   80.0375  kv 0.0375, queued 80, left out by policy: too full
http://bb:1  0.3333   chosen, kv 1e+300, queued not finite
http://c:1   -        left out by breaker: open
`, out.String())
}
