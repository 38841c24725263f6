package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/bench/replay"
	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/stages/policy"
)

// simulates runs smg simulate with this standard input.
func simulates(stdin string, args ...string) (code int, stdout, stderr string) {
	return piped(stdin, append([]string{"simulate"}, args...))
}

// recordedTraffic is what a gateway in front of real engines has recorded of so many chats.
func recordedTraffic(t *testing.T, requests int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "traffic.jsonl")
	cfg := server.Default()
	cfg.Record, cfg.StartupCheckInterval = path, 1
	e := engine.Start(t, engine.Config{Models: []string{"m"}})
	cfg.WorkerURLs = []string{e.URL}
	g, err := server.New(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	front := httptest.NewServer(g.Handler())
	defer http.DefaultClient.CloseIdleConnections()
	defer front.Close()
	require.True(t, allRegistered(t.Context(), front.URL, cfg.WorkerURLs))
	for i := range requests {
		body := fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":"%s%d"}]}`, i%2 == 0, strings.Repeat(string(rune('a'+i%3)), 5000), i)
		req, err := http.NewRequest(http.MethodPost, front.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-SMG-Routing-Key", fmt.Sprintf("user-%d", i%3))
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		_, err = bytes.NewBuffer(nil).ReadFrom(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	g.Close(t.Context())
	return path
}

// "which policy would suit my traffic", from what --record has written of it.
func TestSimulateReadsWhatTheGatewayHasRecorded(t *testing.T) {
	path := recordedTraffic(t, 60)
	code, stdout, stderr := simulates("", path, "--engines", "2")
	require.Zero(t, code, stderr)
	require.Empty(t, stderr, "no terminal, no progress")
	require.Regexp(t, `(?m)^traffic  60 requests in \S+, 12\d\d prompt and 1[67] answer tokens on average$`, stdout)
	require.Regexp(t, `(?m)^ +7\d % of the prompt tokens had been seen before$`, stdout)
	for _, load := range []string{"At 0.5 times the recorded rate", "At the recorded rate", "At 1.5 times the recorded rate", "At 2 times the recorded rate"} {
		require.Contains(t, stdout, "\n"+load+" (")
	}
	for _, name := range append(policy.Names(), replay.Oracle) {
		require.Regexp(t, `(?m)^ +`+name+`  +\d`, stdout)
	}
	require.Contains(t, stdout, "\nAt the recorded rate, first tokens came soonest under ")
	require.Contains(t, stdout, "cache_aware (the default)")
	require.Contains(t, stdout, "This is a simulation.")

	dir := filepath.Join(t.TempDir(), "plots")
	few := []string{"--engines", "2", "--policy", "least_work", "manual", "--load", "1,3", "--json", "--plot", dir}
	code, first, stderr := simulates("", append([]string{path}, few...)...)
	require.Zero(t, code, stderr)
	var rows []replay.Row
	require.NoError(t, json.Unmarshal([]byte(first), &rows))
	require.Len(t, rows, 3*2)
	for _, r := range rows {
		require.Positive(t, r.Recorded)
		require.Positive(t, r.CachedShare)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "trace-2-1.svg"))
	require.NoError(t, err)
	require.Contains(t, string(svg), "load, 1 is the recorded rate, ")

	text, err := os.ReadFile(path)
	require.NoError(t, err)
	zipped := path + ".gz"
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err = w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(zipped, z.Bytes(), 0o600))
	for _, file := range []string{"-", zipped} {
		code, again, stderr := simulates(string(text), append([]string{file}, few...)...)
		require.Zero(t, code, stderr)
		require.Equal(t, first, again, "the same for a seed, from wherever it comes")
	}
}

// traffic are lines of a recording: so many requests 100 ms apart, with what else each says.
func traffic(n int, more string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":600,"output_length":3,"hash_ids":[%d,%d]%s}`+"\n", 100*i, i%7, 1000+i, more)
	}
	return b.String()
}

// What the flags say of the engines is what is simulated.
func TestSimulateTakesTheEnginesOfTheFlags(t *testing.T) {
	simulated := func(args ...string) (r replay.Row) {
		code, stdout, stderr := simulates(traffic(200, ""), append([]string{"-", "--engines", "2", "--policy", "round_robin", "--load", "1", "--json"}, args...)...)
		require.Zero(t, code, stderr)
		var rows []replay.Row
		require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
		require.Equal(t, "round_robin", rows[1].Policy)
		return rows[1]
	}
	usual := simulated()
	require.InDelta(t, 10, usual.Recorded, 0.1)
	require.Greater(t, simulated("--prefill-tps", "4000").TTFTP50, usual.TTFTP50)
	require.Greater(t, simulated("--prefill-chunk", "64").TTFTP50, usual.TTFTP50)
	require.Greater(t, simulated("--itl", "100ms").E2EP99, usual.E2EP99)
	require.Greater(t, simulated("--batch-slowdown", "50ms").E2EP99, simulated("--batch-slowdown", "0s").E2EP99)
	require.Greater(t, simulated("--max-running", "1", "--itl", "100ms").TTFTP99, simulated("--itl", "100ms").TTFTP99)
	require.Less(t, simulated("--kv-tokens", "1024").CachedShare, usual.CachedShare)
	require.Greater(t, simulated("--slo-ttft", "500ms").Capacity, simulated("--slo-ttft", "50ms").Capacity)
	require.Less(t, simulated("--slo-ttft", "100ms", "--engines", "1").Capacity, simulated("--slo-ttft", "100ms").Capacity)
	require.Zero(t, simulated("--slo-ttft", "1h").Capacity, "200 requests overload nobody for that long")
}

// cli.md, section 9
func TestSimulateSaysWhatItCannotSimulate(t *testing.T) {
	tests := []struct{ name, trace, args, says string }{
		{"several models", traffic(2, `,"model":"a"`) + traffic(1, `,"model":"b"`), "", "invalid --model: '': must be given: the recording has several models: a (2 requests), b (1 requests)"},
		{"a model that it does not have", traffic(2, `,"model":"a"`), "--model b", "invalid --model: 'b': must name a model of the recording, which has a (2 requests)"},
		{"no time", traffic(1, ""), "", "- has no two requests at different times, so there is no rate to simulate"},
		{"nothing", "", "", "cannot read the recording: -: no request in it"},
		{"refusals alone", traffic(3, `,"status":400`), "", "cannot read the recording: -: no request in it that was not refused"},
		{"something else", "hello\n", "", "cannot read the recording: -: line 1 is no JSON object of a trace: invalid character 'h' looking for beginning of value"},
		{"no engines", traffic(2, ""), "--engines 0", "invalid --engines: '0': must be between 1 and 1024"},
		{"a policy that is none", traffic(2, ""), "--policy best", "invalid --policy: 'best': must be one of random, "},
		{"a load that is none", traffic(2, ""), "--load 0", "invalid --load: '0': must be above 0 and at most 100"},
		{"an engine without speed", traffic(2, ""), "--prefill-tps -1", "invalid --prefill-tps: '-1': must be between 1 and 1000000000"},
		{"tokens in no time", traffic(2, ""), "--itl 0s", "invalid --itl: '0s': must be between 1µs and 24h"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := simulates(tt.trace, append([]string{"-", "--engines", "1"}, strings.Fields(tt.args)...)...)
			require.Equal(t, exitFailed, code)
			require.Empty(t, stdout)
			require.Contains(t, stderr, "error: "+tt.says)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
		})
	}
	code, stdout, stderr := simulates(traffic(20, `,"model":"a"`)+traffic(1, `,"model":"b"`), "-", "--engines", "1", "--model", "a", "--policy", "random", "--load", "1")
	require.Zero(t, code, stderr)
	require.Contains(t, stdout, "20 requests")
}

// One sentence names the policy that did best, and by how much over the default.
func TestTheVerdictNamesTheBestPolicy(t *testing.T) {
	row := func(name string, load, p90, p99 float64) replay.Row {
		return replay.Row{Policy: name, Load: load, TTFTP90: p90, TTFTP99: p99, Recorded: 2, Capacity: 6}
	}
	const carries = " the fleet carries up to 6 requests/s, 3 times the recorded rate, with 90 % of first tokens within 2 s."
	tests := []struct {
		name string
		rows []replay.Row
		want string
	}{
		{
			"another one than the default",
			[]replay.Row{row("oracle", 1, 0.1, 0.1), row("random", 1, 3, 9), row("cache_aware", 1, 2, 3), row("least_work", 1, 1, 2)},
			"At the recorded rate, first tokens came soonest under least_work: 90 % of them within 1.00 s, 99 % within 2.00 s. Under cache_aware (the default) it was 2.00 s and 3.00 s, which is 100 % more by the 90th percentile and 50 % more by the 99th. Under least_work" + carries,
		},
		{
			"the default",
			[]replay.Row{row("random", 1, 3, 9), row("cache_aware", 1, 2, 3), row("least_work", 1, 2.2, 2.4)},
			"At the recorded rate, first tokens came soonest under cache_aware (the default): 90 % of them within 2.00 s, 99 % within 3.00 s. Under least_work it was 2.20 s and 2.40 s, which is 10 % more by the 90th percentile and 20 % less by the 99th. Under cache_aware" + carries,
		},
		{
			"the 99th decides where the 90th is alike",
			[]replay.Row{row("cache_aware", 1, 2, 3.1), row("least_work", 1, 2.02, 3)},
			"At the recorded rate, first tokens came soonest under least_work: 90 % of them within 2.02 s, 99 % within 3.00 s. Under cache_aware (the default) it was 2.00 s and 3.10 s, which is no difference to act upon. Under least_work" + carries,
		},
		{
			"without the default there is nothing to compare with",
			[]replay.Row{row("random", 1, 2, 3), row("least_work", 1, 3, 4)},
			"At the recorded rate, first tokens came soonest under random: 90 % of them within 2.00 s, 99 % within 3.00 s. Under random" + carries,
		},
		{
			"the load that is nearest to the recorded one counts",
			[]replay.Row{row("random", 0.9, 2, 3), row("random", 3, 5, 6)},
			"At 0.9 times the recorded rate, first tokens came soonest under random: 90 % of them within 2.00 s, 99 % within 3.00 s. Under random" + carries,
		},
		{
			"what cannot be told is not told",
			[]replay.Row{{Policy: "random", Load: 1, TTFTP90: 1, TTFTP99: 1, Recorded: 2, Capacity: 1e6}},
			"At the recorded rate, first tokens came soonest under random: 90 % of them within 1.00 s, 99 % within 1.00 s.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &simulateCmd{SLOTTFT: 2 * time.Second}
			for _, r := range tt.rows {
				s.Load = append(s.Load, r.Load)
			}
			require.Equal(t, tt.want, s.verdict(tt.rows))
		})
	}
}
