package stages

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	collecting "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// reading is what tracing reads of an answer. A test that reads nothing else of it has no usage.
type reading struct {
	id, model string
	reasons   []string
	in, out   int64
}

// answers is a collector that keeps what was read of answers.
type answers struct {
	collecting.UnimplementedTraceServiceServer

	mu   sync.Mutex
	read map[string]reading // by the name of the span
}

func (a *answers) Export(_ context.Context, batch *collecting.ExportTraceServiceRequest) (*collecting.ExportTraceServiceResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range batch.ResourceSpans[0].ScopeSpans[0].Spans {
		var r reading
		for _, attribute := range s.Attributes {
			switch v := attribute.Value; attribute.Key {
			case "gen_ai.response.id":
				r.id = v.GetStringValue()
			case "gen_ai.response.model":
				r.model = v.GetStringValue()
			case "gen_ai.response.finish_reasons":
				for _, reason := range v.GetArrayValue().Values {
					r.reasons = append(r.reasons, reason.GetStringValue())
				}
			case "gen_ai.usage.input_tokens":
				r.in = v.GetIntValue()
			case "gen_ai.usage.output_tokens":
				r.out = v.GetIntValue()
			}
		}
		a.read[s.Name] = r
	}
	return &collecting.ExportTraceServiceResponse{}, nil
}

// readAnswers has answers described by tracing, and gives what arrived at a collector. Both are by name.
func readAnswers(t *testing.T, bodies map[string][]byte, usage pipeline.Usage) map[string]reading {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	a := &answers{read: map[string]reading{}}
	s := grpc.NewServer()
	collecting.RegisterTraceServiceServer(s, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(listener) }()
	t.Cleanup(func() { s.Stop(); <-done })
	all := 1.0
	tracing, err := telemetry.NewTracing(telemetry.TracingOptions{
		Endpoint: "http://" + listener.Addr().String(), Ratio: &all,
		Metrics: telemetry.NewMetrics(telemetry.Options{}).Traces, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	for name, body := range bodies {
		var span telemetry.Span
		tracing.StartServer(&span, name, time.Now(), func(string) string { return "" })
		describeInferred(&span.Attributes, &pipeline.Leg{Usage: usage}, body)
		span.End(time.Now())
	}
	require.NoError(t, tracing.Close(t.Context()))
	return a.read
}

// telemetry.md, section 6.4
func TestTracingReadsWhatRealEnginesAnswer(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/answers.txtar")
	require.NoError(t, err)
	captured := map[string][]byte{}
	for _, f := range archive.Files {
		captured[f.Name] = f.Data
	}
	length, full := []string{"length"}, []string{"max_tokens"}
	tests := []struct {
		name string
		want reading
	}{
		{"vLLM, chat", reading{id: "chatcmpl-my-req-1", model: "tiny", reasons: length}},
		{"vLLM, completion", reading{id: "cmpl-9cf151c8b4c7a726", model: "tiny", reasons: length}},
		{"vLLM, messages", reading{id: "chatcmpl-827612c18fe6dfa6", model: "tiny", reasons: full}},
		{"vLLM, responses", reading{id: "resp_b1b21c2b279c4c0c", model: "tiny"}},
		{"vLLM, count_tokens", reading{}},
		{"vLLM, chat, streamed with usage", reading{id: "chatcmpl-ba8046d901206b94", model: "tiny", reasons: length}},
		{"vLLM, chat, streamed", reading{id: "chatcmpl-9f7ed053b3496cb2", model: "tiny", reasons: length}},
		{"vLLM, completion, streamed", reading{id: "cmpl-9e1f57d7bf404c67", model: "tiny", reasons: length}},
		{"vLLM, messages, streamed", reading{reasons: full}}, // the id is in the first event, which is far from the end
		{"vLLM, responses, streamed", reading{id: "resp_97ddc3d9df534a69", model: "tiny"}},
		{"llama.cpp, chat", reading{id: "chatcmpl-1B1sLVovBBuJrYuh6Up5oW7cWSNXXxeC", model: "tiny", reasons: length}},
		{"llama.cpp, completion", reading{id: "chatcmpl-Sni24U61RGZJejtPWJx7sxAgY5Jpx1Dg", model: "tiny", reasons: length}},
		{"llama.cpp, messages", reading{id: "chatcmpl-c6UzRYAC9D7TObjiHGrNnnPVconbwnA0", model: "tiny", reasons: full}},
		{"llama.cpp, responses", reading{id: "resp_7f3lbOAIf5jDAs55J9Kr1a5nmOCXBpFV", model: "tiny"}},
		{"llama.cpp, chat, streamed with usage", reading{id: "chatcmpl-4SxTZDv278DiwwFOFj9METP1uC8HLQY7", model: "tiny", reasons: length}},
		{"llama.cpp, chat, streamed", reading{id: "chatcmpl-SHlZlbPmHH8uCxSha97ZKTuHkHiOifIP", model: "tiny", reasons: length}},
		{"llama.cpp, completion, streamed", reading{id: "chatcmpl-P9PnMT3JJRh36WpOH74RTN1WT3n6senp", model: "tiny", reasons: length}},
		{"llama.cpp, messages, streamed", reading{reasons: full}},
	}
	require.Len(t, tests, len(captured), "every capture has a row")
	read := readAnswers(t, captured, pipeline.Usage{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Contains(t, captured, tt.name)
			require.Equal(t, tt.want, read[tt.name])
		})
	}
}

// telemetry.md, section 6.4: only what is known is set. What SGLang's /generate answers is grpc-workers.md's.
func TestTracingReadsTheEndOfAnAnswer(t *testing.T) {
	chunk := func(rest string) string { return `data: {"id":"c1","model":"m1","choices":[` + rest + `]}` + "\n\n" }
	const (
		stopped = `{"index":0,"delta":{},"finish_reason":"stop"}`
		going   = `{"index":0,"delta":{"content":"x"},"finish_reason":null}`
		done    = "data: [DONE]\n\n"
	)
	c1 := reading{id: "c1", model: "m1", reasons: []string{"stop"}}
	tests := []struct {
		name, body string
		want       reading
	}{
		{"nothing", "", reading{}},
		{"no JSON", "<html>", reading{}},
		{
			"an object for the reason, as /generate has it", `{"text":"t","output_ids":[1],"meta_info":{"id":"g1","finish_reason":{"type":"length","length":1}}}`,
			reading{id: "g1", reasons: []string{"length"}},
		},
		{
			"/generate, streamed", `data: {"text":"t","meta_info":{"id":"g1","finish_reason":null}}` + "\n\n" +
				`data: {"text":"tt","meta_info":{"id":"g1","finish_reason": { "type" : "stop","matched":2}}}` + "\n\n" + done,
			reading{id: "g1"}, // white space that no engine writes
		},
		{
			"/generate, streamed without white space", `data: {"text":"tt","meta_info":{"id":"g1","finish_reason":{"type":"stop","matched":2}}}` + "\n\n" + done,
			reading{id: "g1", reasons: []string{"stop"}},
		},
		{
			"several choices", `{"id":"c1","model":"m1","choices":[{"finish_reason":"stop"},{"finish_reason":"length"},{"finish_reason":null}]}`,
			reading{id: "c1", model: "m1", reasons: []string{"stop", "length"}},
		},
		{
			"a stop string is not why the choice ended", `{"id":"c1","model":"m1","choices":[{"finish_reason":"stop","stop_reason":"###"}]}`, c1,
		},
		{"white space around colons", `{ "id" : "c1", "model":` + "\n" + `"m1", "choices":[{"finish_reason" :"stop"}]}`, c1},
		{
			"the id of a tool call in front of the answer's own",
			`{"choices":[{"finish_reason":"stop","message":{"content":"}{\\\\","tool_calls":[{"type":"function","function":{"name":"f"},"id":"call1"}]}}],"model":"m1","id":"c1"}`, c1,
		},
		{"a name in a text is none", `{"text":"\"id\":\"no\"","id":"c1","model":"m1","choices":[{"finish_reason":"stop"}]}`, c1},
		{"a name that is a value is none", `{"object":"id","owner":"model","id":"c1","model":"m1","choices":[{"finish_reason":"stop"}]}`, c1},
		{"a name that ends alike is another", `{"item_id":"no","base_model":"no","id":"c1","model":"m1","choices":[{"finish_reason":"stop"}]}`, c1},
		{"values that are no texts", `{"id":7,"model":null,"choices":[{"finish_reason":["stop"]}]}`, reading{}},
		{"empty values", `{"id":"","model":"","choices":[{"finish_reason":""}]}`, reading{}},
		{"values with escapes are left out", `{"id":"c\u0031","model":"a\/b","choices":[{"finish_reason":"stop"}]}`, reading{reasons: []string{"stop"}}},
		{"values that are not UTF-8 are left out", "{\"id\":\"c\xff\",\"model\":\"m\xc3\",\"choices\":[{\"finish_reason\":\"stop\"}]}", reading{reasons: []string{"stop"}}},
		{"a value of 128 bytes", `{"id":"` + strings.Repeat("i", 128) + `"}`, reading{id: strings.Repeat("i", 128)}},
		{"a value of 129 bytes is none", `{"id":"` + strings.Repeat("i", 129) + `","model":"m1"}`, reading{model: "m1"}},
		{"an answer that is cut", `{"id":"c1","model":"m1","choices":[{"finish_reason":"st`, reading{id: "c1", model: "m1"}},
		{"an answer of 64 KiB", `{"id":"c1"` + strings.Repeat(" ", 64<<10-11) + `}`, reading{id: "c1"}},
		{"a longer answer is not looked at", `{"id":"c1"` + strings.Repeat(" ", 64<<10-10) + `}`, reading{}},
		{"the end of a stream", chunk(going) + chunk(stopped) + done, c1},
		{"a stream without its last word", chunk(going) + chunk(stopped), c1},
		{"a stream with CRLF", strings.ReplaceAll(chunk(going)+chunk(stopped)+done, "\n", "\r\n"), c1},
		{"a stream with CR", strings.ReplaceAll(chunk(going)+chunk(stopped)+done, "\n", "\r"), c1},
		{"a stream without spaces", strings.ReplaceAll(chunk(going)+chunk(stopped)+done, "data: ", "data:"), c1},
		{"usage and comments behind the last choice", chunk(stopped) + ": ping\n\n" + chunk("") + done, c1},
		{"the last choice is the fourth event from the end", chunk(stopped) + chunk("") + chunk("") + done, c1},
		{"further from the end nothing is looked for", chunk(stopped) + chunk("") + chunk("") + chunk("") + done, reading{id: "c1", model: "m1"}},
		{"an event that is cut at its beginning is not read", strings.TrimPrefix(chunk(stopped), "data: {") + done, reading{}},
		{"nor is what stands before data in a text", `{"no":1,"id":"c0` + "x data: " + `"id":"c1"`, reading{id: "c0x data: "}},
		{"a text that says data: hides what is before it", chunk(stopped) + chunk(`{"delta":{"content":"data: x"}}`) + done, reading{}},
		{"the last reason counts", chunk(`{"finish_reason":"length"}`) + chunk(stopped) + done, c1},
		{"a failure in the stream", chunk(going) + `data: {"error":{"message":"m","code":500}}` + "\n\n" + done, reading{id: "c1", model: "m1"}},
	}
	bodies := map[string][]byte{}
	for _, tt := range tests {
		bodies[tt.name] = []byte(tt.body)
	}
	read := readAnswers(t, bodies, pipeline.Usage{InputTokens: 3, OutputTokens: 7})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.in, tt.want.out = 3, 7 // whatever is read, usage is known already
			require.Equal(t, tt.want, read[tt.name])
		})
	}
}

// telemetry.md, section 6.4: what is read is what a JSON parser finds. The engine is the mock, which answers as SGLang and vLLM do.
func TestTracingReadsWhatAParserFinds(t *testing.T) {
	const n = `"max_tokens":16`
	chat, text := `"messages":[{"role":"user","content":"Hello"}],`+n, `"prompt":"Hello",`+n
	tests := []struct {
		name, path, request string
		far                 bool // id and model are in the first event, out of sight
	}{
		{"chat", "/v1/chat/completions", chat, false},
		{"chat, streamed", "/v1/chat/completions", chat + `,"stream":true`, false},
		{"chat, streamed with usage", "/v1/chat/completions", chat + `,"stream":true,"stream_options":{"include_usage":true}`, false},
		{"completions", "/v1/completions", text, false},
		{"completions, streamed", "/v1/completions", text + `,"stream":true`, false},
		{"generate", "/generate", `"text":"Hello","sampling_params":{"max_new_tokens":16}`, false},
		{"generate, streamed", "/generate", `"text":"Hello","sampling_params":{"max_new_tokens":16},"stream":true`, false},
		{"messages", "/v1/messages", chat, false},
		{"messages, streamed", "/v1/messages", chat + `,"stream":true`, true},
		{"responses", "/v1/responses", `"input":"Hello","max_output_tokens":16`, false},
		{"responses, streamed", "/v1/responses", `"input":"Hello","max_output_tokens":16,"stream":true`, false},
	}
	e := engine.Start(t, engine.Config{})
	bodies := map[string][]byte{}
	for _, tt := range tests {
		bodies[tt.name] = asked(t, e.URL+tt.path, `{"model":"m1",`+tt.request+`}`)
	}
	read := readAnswers(t, bodies, pipeline.Usage{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := parsed(t, bodies[tt.name])
			require.NotEmpty(t, want.id)
			if tt.far {
				want.id, want.model = "", ""
			}
			require.Equal(t, want, read[tt.name])
		})
	}
}

func asked(t *testing.T, url, request string) []byte {
	t.Helper()
	answer, err := http.Post(url, "application/json", strings.NewReader(request))
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	return body
}

// parsed is what a JSON parser finds in an answer, or in all events of a stream.
func parsed(t *testing.T, body []byte) (r reading) {
	t.Helper()
	docs := [][]byte{body}
	if body[0] != '{' {
		docs = nil
		for line := range bytes.Lines(body) {
			if data, found := bytes.CutPrefix(line, []byte("data: ")); found && data[0] == '{' {
				docs = append(docs, data)
			}
		}
	}
	for _, doc := range docs {
		type named struct {
			ID, Model string
			Reason    string `json:"stop_reason"`
		}
		var v struct {
			named
			Choices []struct {
				Reason string `json:"finish_reason"`
			}
			Message, Response named
			Delta             json.RawMessage // an object or a text
			Meta              struct {
				ID     string
				Reason struct{ Type string } `json:"finish_reason"`
			} `json:"meta_info"`
		}
		require.NoError(t, json.Unmarshal(doc, &v), string(doc))
		var delta named
		_ = json.Unmarshal(v.Delta, &delta)
		reasons := []string{v.Reason, delta.Reason, v.Meta.Reason.Type}
		for _, c := range v.Choices {
			reasons = append(reasons, c.Reason)
		}
		r.reasons = append(r.reasons, slices.DeleteFunc(reasons, func(s string) bool { return s == "" })...)
		r.id = firstOf(r.id, v.ID, v.Message.ID, v.Response.ID, v.Meta.ID)
		r.model = firstOf(r.model, v.Model, v.Message.Model, v.Response.Model)
	}
	return r
}

func firstOf(texts ...string) string {
	for _, s := range texts {
		if s != "" {
			return s
		}
	}
	return ""
}

// FuzzLastDocuments: documents are parts of the answer, the last ones first, and none runs into another.
func FuzzLastDocuments(f *testing.F) {
	f.Add([]byte(`{"id":"c1"}`))
	f.Add([]byte("data: {}\n\ndata: {}\r\n\r\ndata:data:\rdata: [DONE]\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		rest, docs := body, 0
		for doc := range lastDocuments(body) {
			docs++
			at := bytes.LastIndex(rest, doc)
			require.True(t, bytes.HasSuffix(rest, doc), "a document ends where the one behind it begins")
			if len(body) > 0 && body[0] == '{' {
				require.Equal(t, body, doc)
			} else {
				require.True(t, bytes.HasSuffix(rest[:at], []byte("data:")))
				rest = rest[:at-len("data:")]
				require.True(t, len(rest) == 0 || rest[len(rest)-1] == '\n' || rest[len(rest)-1] == '\r', "an event begins a line")
			}
		}
		require.LessOrEqual(t, docs, inspectedEvents)
		require.Equal(t, before, body)
	})
}

// FuzzReadAnswer: whatever a worker answers, reasons are short texts of it, in its order.
func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte(`{"choices":[{"finish_reason":"stop"},{"finish_reason":{"type":"length"}}]}`))
	f.Add([]byte(`{"stop_reason":"max_tokens","finish_reason":"`))
	f.Add([]byte(`"finish_reason":{"type"{"type":"`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		rest := doc
		a := readAnswer(doc)
		for _, reason := range a.reasons() {
			require.True(t, utf8.ValidString(reason))
			require.NotEmpty(t, reason)
			require.LessOrEqual(t, len(reason), longestValue)
			require.NotContains(t, reason, `"`)
			at := bytes.Index(rest, []byte(`"`+reason+`"`))
			require.GreaterOrEqual(t, at, 0)
			rest = rest[at+1:]
		}
	})
}
