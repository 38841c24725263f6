package main

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// clientCheck is one check of a client and the state of the engines in which it runs.
type clientCheck struct {
	name   string // what holds
	check  string // the function in the client's file
	more   map[string]any
	faults []engine.Fault // of each engine
	after  func(t *testing.T, f *fleet, seen json.RawMessage)
}

const (
	streamsAtOnce = 50
	maxPayload    = 64 << 10
)

// Faults that several checks use.
var (
	slow      = []engine.Fault{{TTFTMillis: 20, ITLMillis: 5}}      // streams that overlap
	endless   = []engine.Fault{{TTFTMillis: 20, ITLMillis: 60_000}} // after a token comes nothing for a minute
	silent    = []engine.Fault{{HangHeadMillis: -1}}
	trickling = []engine.Fault{{TTFTMillis: 1, ITLMillis: 20}} // 4000 tokens take more than a minute
	hangsUp   = []engine.Fault{{Close: true}}
	failsOnce = []engine.Fault{{Status: 503, Count: 1}}
)

// The official clients work against the built gateway in front of three engines. Every check leaves all counts at zero.
func TestOfficialClients(t *testing.T) {
	python := pythonForClients(t)
	binary := built(t)
	for file, checks := range map[string][]clientCheck{
		"openai_client.py": slices.Concat(sharedChecks, openAIChecks), "anthropic_client.py": slices.Concat(sharedChecks, anthropicChecks),
	} {
		t.Run(strings.TrimSuffix(file, "_client.py"), func(t *testing.T) {
			f := startFleet(t, binary)
			client := startClient(t, python, file)
			requireAllAreRun(t, client, checks)
			for _, tt := range checks {
				t.Run(tt.name, func(t *testing.T) { tt.run(t, f, client) })
			}
		})
	}
}

func (c clientCheck) run(t *testing.T, f *fleet, client *client) {
	f.arm(c.faults)
	order := map[string]any{"check": c.check, "base": f.url}
	maps.Copy(order, c.more)
	seen := client.run(t, order)
	if c.after != nil {
		c.after(t, f, seen)
	}
	f.arm(nil)
	f.requireQuiet(t)
}

// requireAllAreRun keeps checks from standing in a client's file without ever being run.
func requireAllAreRun(t *testing.T, client *client, checks []clientCheck) {
	t.Helper()
	var names, run []string
	require.NoError(t, json.Unmarshal(client.run(t, map[string]any{}), &names))
	for _, c := range checks {
		run = append(run, c.check)
	}
	slices.Sort(run)
	require.Equal(t, names, slices.Compact(run))
}

// sharedChecks are in both files. http-dataplane.md, sections 3, 6 to 10 and 14; DECISIONS 25 to 29.
var sharedChecks = []clientCheck{
	{name: "the asynchronous client, plain and streamed", check: "asynchronous"},
	{
		name: "50 streams at once are all whole and not mixed up", check: "many_streams",
		more: map[string]any{"streams": streamsAtOnce}, faults: slow, after: requireSpread,
	},
	{name: "the request id is where the client looks for it", check: "request_id"},
	{name: "the worker that answered is named, and the next request goes to another", check: "worker_named", after: requireAllNamed},
	{name: "fields that the gateway does not know reach the engine as the client wrote them", check: "relayed_verbatim", after: requireVerbatim},
	{name: "an unknown model", check: "unknown_model", after: requireAttempts(0)},
	{name: "a parameter out of its range", check: "bad_parameter", after: requireAttempts(0)},
	{name: "a body that is no JSON or compressed", check: "not_json", after: requireAttempts(0)},
	{name: "a body that is too large", check: "too_large", more: map[string]any{"size": maxPayload}, after: requireAttempts(0)},
	{name: "no engine answers", check: "engines_hang_up", faults: hangsUp, after: requireAttempts(5 * 2)}, // each is sent anew once
	{name: "the client leaves in mid-stream and the engine stops", check: "leaves", faults: trickling, after: requireStopped},
	{name: "a cancelled task leaves in mid-stream and the engine stops", check: "leaves_cancelled", faults: trickling, after: requireStopped},
	{name: "the client's time runs out before the answer and the engine stops", check: "times_out", faults: silent, after: requireStopped},
	{name: "the client's time runs out in mid-stream and the engine stops", check: "times_out_in_stream", faults: endless, after: requireStopped},
}

var openAIChecks = []clientCheck{
	{name: "models", check: "models"},
	{name: "a chat", check: "chat"},
	{name: "engines that fail once each are not noticed", check: "chat", faults: failsOnce, after: requireAttempts(4)},
	{name: "a streamed chat", check: "chat_streamed"},
	{name: "a completion, plain and streamed", check: "completion"},
	{name: "embeddings", check: "embeddings"},
	{name: "a transcription, plain and streamed", check: "transcription", after: requireAttempts(4)},
	{name: "a response, plain and streamed", check: "responses"},
	{
		name: "a request that the engine refuses is not tried again", check: "engine_refuses", after: requireAttempts(1),
		faults: answers(400, `{"error":{"message":"The context is too long","type":"BadRequestError","param":"messages","code":400}}`),
	},
	{
		name: "a rate limit of the engines, when all attempts are over", check: "rate_limited", after: requireAttempts(5),
		faults: answers(429, `{"error":{"message":"Slow down","type":"rate_limit_error","param":null,"code":429}}`,
			"Retry-After: 7", "X-RateLimit-Remaining-Requests: 0"),
	},
	openAIFailure(500, 3*2), // once on each engine: what is wrong may be the request
	openAIFailure(502, 5*2),
	openAIFailure(503, 5*2),
	{
		name: "a stream cut between two events", check: "cut_between_events", more: map[string]any{"events": 5},
		faults: []engine.Fault{{CutAfterEvents: new(5)}}, after: requireAttempts(1),
	},
	{
		name: "a stream that a reset cuts", check: "cut_within_event",
		faults: []engine.Fault{{CutAfterBytes: new(1000), ITLMillis: 20, Reset: true}}, after: requireAttempts(1),
	},
	{name: "a streamed response that is cut", check: "cut_response", faults: []engine.Fault{{CutAfterEvents: new(5)}}, after: requireAttempts(1)},
	{
		name: "an error in a stream", check: "error_event", after: requireAttempts(1), faults: streams(
			"data: "+`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"content":"the"}}]}`,
			"data: "+`{"error":{"message":"Out of memory","type":"InternalServerError","param":null,"code":500}}`, "data: [DONE]"),
	},
}

var anthropicChecks = []clientCheck{
	{name: "a message", check: "message"},
	{name: "engines that fail once each are not noticed", check: "message", faults: failsOnce, after: requireAttempts(4)},
	{name: "the events of a streamed message", check: "message_streamed"},
	{name: "a stream's text and its final message", check: "stream_helper"},
	{name: "tokens are counted", check: "count_tokens", after: requireAttempts(2)},
	{name: "tokens are counted although engines fail once each", check: "count_tokens", faults: failsOnce, after: requireAttempts(2 + 3)},
	{
		name: "a request that the engine refuses is not tried again", check: "engine_refuses", after: requireAttempts(1),
		faults: answers(400, `{"type":"error","error":{"type":"invalid_request_error","message":"The context is too long"}}`),
	},
	{
		name: "a rate limit of the engines, when all attempts are over", check: "rate_limited", after: requireAttempts(5),
		faults: answers(429, `{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}`,
			"Retry-After: 7", "Anthropic-RateLimit-Requests-Remaining: 0"),
	},
	anthropicFailure(500, 3*2, "InternalServerError", "api_error"),
	anthropicFailure(502, 5*2, "InternalServerError", "api_error"),
	anthropicFailure(503, 5*2, "ServiceUnavailableError", "overloaded_error"),
	anthropicFailure(529, 1*2, "OverloadedError", "overloaded_error"), // no status that is tried again
	{
		name: "a stream cut between two events", check: "cut_between_events", more: map[string]any{"events": 5},
		faults: []engine.Fault{{CutAfterEvents: new(5)}}, after: requireAttempts(2),
	},
	{
		name: "a stream that a reset cuts", check: "cut_within_event",
		faults: []engine.Fault{{CutAfterBytes: new(900), ITLMillis: 20, Reset: true}}, after: requireAttempts(1),
	},
	{
		name: "an error in a stream", check: "error_event", after: requireAttempts(1), faults: streams(
			"event: content_block_start\ndata: "+`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"event: error\ndata: "+`{"type":"error","error":{"type":"overloaded_error","message":"Out of memory"}}`),
	},
}

// openAIFailure is a status that every engine gives, asked for plainly and as a stream.
func openAIFailure(status, attempts int) clientCheck {
	return clientCheck{
		name: "engines that all answer " + strconv.Itoa(status) + ", when all attempts are over", check: "engines_fail",
		more:   map[string]any{"status": status},
		faults: answers(status, `{"error":{"message":"Out of memory","type":"InternalServerError","param":null,"code":500}}`),
		after:  requireAttempts(attempts),
	}
}

// anthropicFailure is openAIFailure in the other client's words: the class of its exception, and the type in the body.
func anthropicFailure(status, attempts int, class, kind string) clientCheck {
	return clientCheck{
		name: "engines that all answer " + strconv.Itoa(status) + ", when all attempts are over", check: "engines_fail",
		more:   map[string]any{"status": status, "kind": class, "type": kind},
		faults: answers(status, `{"type":"error","error":{"type":"`+kind+`","message":"Out of memory"}}`),
		after:  requireAttempts(attempts),
	}
}

// answers makes engines give that answer to everything they are asked for.
func answers(status int, body string, headers ...string) []engine.Fault {
	return []engine.Fault{{Status: status, Body: engine.Text(body), Headers: headers}}
}

// streams makes engines answer with these events.
func streams(events ...string) []engine.Fault {
	f := engine.Fault{}
	for _, e := range events {
		f.Chunks = append(f.Chunks, e+"\n\n")
	}
	return []engine.Fault{f}
}

// requireAttempts demands how often the engines were asked in all.
func requireAttempts(n int) func(*testing.T, *fleet, json.RawMessage) {
	return func(t *testing.T, f *fleet, _ json.RawMessage) {
		t.Helper()
		require.Equal(t, n, len(f.asked()))
	}
}

// requireSpread demands that the streams really ran side by side, on all engines.
func requireSpread(t *testing.T, f *fleet, _ json.RawMessage) {
	t.Helper()
	require.Len(t, f.asked(), streamsAtOnce)
	for _, e := range f.engines {
		require.Greater(t, len(e.Requests()), streamsAtOnce/4)
		require.Greater(t, e.State().Max, int64(1))
	}
}

func requireAllNamed(t *testing.T, f *fleet, seen json.RawMessage) {
	t.Helper()
	var named []string
	require.NoError(t, json.Unmarshal(seen, &named))
	require.ElementsMatch(t, f.urls(), named)
}

func requireVerbatim(t *testing.T, f *fleet, seen json.RawMessage) {
	t.Helper()
	var encoded string
	require.NoError(t, json.Unmarshal(seen, &encoded))
	sent, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err)
	asked := f.asked()
	require.Len(t, asked, 1)
	require.Contains(t, string(sent), "unheard_of")
	require.Equal(t, string(sent), string(asked[0].Body))
	if asked[0].Path == "/v1/messages" {
		require.Len(t, asked[0].Values("anthropic-version"), 1)
		require.Equal(t, []string{"some-beta"}, asked[0].Values("anthropic-beta"))
	}
}

// requireStopped demands that the one engine that was asked learns that nobody listens any more; by itself it would go on for
// more than a minute.
func requireStopped(t *testing.T, f *fleet, _ json.RawMessage) {
	t.Helper()
	asked := f.asked()
	require.Len(t, asked, 1)
	require.Eventually(t, func() bool { return f.asked()[0].ClosedAt != nil }, 30*time.Second, 10*time.Millisecond)
	f.requireQuiet(t)
}
