package workers

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func interviewOf(t *testing.T, base, key string) *interview {
	t.Helper()
	c := newClients(true)
	t.Cleanup(c.close)
	endpoint, err := ParseEndpoint(base)
	require.NoError(t, err)
	return newInterview(c.to(&endpoint, key, false))
}

// workers.md section 14, capture.md section 5, engines/README.md
func TestEngineIsDetected(t *testing.T) {
	owned := func(by string) page { return ok(`{"data":[{"id":"m","owned_by":"` + by + `"}]}`) }
	type pages = map[string]page
	tests := []struct {
		name  string
		pages pages
		want  Runtime
		err   string
	}{
		{"SGLang says so", pages{"/v1/models": owned("sglang"), "/version": ok(`{}`)}, SGLang, ""},
		{"nvidia is SGLang", pages{"/v1/models": owned("nvidia"), "/version": ok(`{}`)}, SGLang, ""},
		{"vLLM says so", pages{"/v1/models": owned("vllm"), "/server_info": ok(`{}`)}, VLLM, ""},
		{"a version makes it vLLM", pages{"/v1/models": owned("self_hosted"), "/version": ok(`{}`), "/server_info": ok(`{}`)}, VLLM, ""},
		{"server info makes it SGLang", pages{"/v1/models": owned("self_hosted"), "/server_info": ok(`{}`)}, SGLang, ""},
		{"llama.cpp is generic", pages{"/v1/models": owned("llamacpp")}, Generic, ""},
		{"an owner that is null is generic", pages{"/v1/models": ok(`{"data":[{"id":"m","owned_by":null}]}`)}, Generic, ""},
		{"another gateway is generic, whatever it forwards", pages{"/v1/models": owned("self_hosted"), "/get_server_info": ok(`{}`)}, Generic, ""},
		{"an old SGLang without a list", pages{"/v1/models": {503, ""}, "/get_server_info": ok(`{}`)}, SGLang, ""},
		{"an empty list beside server info", pages{"/v1/models": ok(`{"data":[]}`), "/server_info": ok(`{}`)}, SGLang, ""},
		{"a list that is no JSON beside a version", pages{"/v1/models": ok(`<html>`), "/version": ok(`{}`)}, VLLM, ""},
		{"a server that has none of the routes", pages{}, Generic, ""},
		{"an empty list and nothing else", pages{"/v1/models": ok(`{"data":[]}`)}, 0, "engine not identified: GET /v1/models names no model"},
		{"a list that is not there yet", pages{"/v1/models": {503, ""}}, 0, "engine not identified: GET /v1/models: status 503"},
		{"a key that is wrong", pages{"/v1/models": {401, ""}}, 0, "engine not identified: GET /v1/models: status 401"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, tt.pages)
			got, err := interviewOf(t, e.URL, "").detect(t.Context())
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestEngineThatIsGoneIsNotDetected(t *testing.T) {
	e := startEngine(t, nil)
	i := interviewOf(t, e.URL, "")
	e.Close()
	_, err := i.detect(t.Context())
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "http://", "the log line names the worker already")
}

// workers.md sections 14 and 15, capture.md section 5, cases.md C13
func TestEveryQuestionCarriesTheKeyAndNothingMore(t *testing.T) {
	e := startEngine(t, sglang("m"))
	i := interviewOf(t, e.URL, "k1")
	require.NoError(t, i.engine.probe(t.Context(), "/health"))
	r, err := i.detect(t.Context())
	require.NoError(t, err)
	i.metadata(t.Context(), r)
	asked := map[string]int{}
	for _, req := range e.requests() {
		asked[req.URL.Path]++
		require.Equal(t, []string{"Bearer k1"}, req.Header["Authorization"])
		require.Equal(t, http.Header{"Authorization": {"Bearer k1"}, "Accept": {"*/*"}}, req.Header)
	}
	require.Equal(t, map[string]int{"/health": 1, "/v1/models": 1, "/server_info": 1, "/model_info": 1}, asked, "each route is asked once")
}

// workers.md section 7, cases.md C17
func TestProbeWants2xx(t *testing.T) {
	e := startEngine(t, map[string]page{"/ok": ok(""), "/empty": {204, ""}, "/moved": {301, ""}, "/broken": {500, ""}, "/base/health": ok("")})
	i := interviewOf(t, e.URL, "")
	require.NoError(t, i.engine.probe(t.Context(), "/ok"))
	require.NoError(t, i.engine.probe(t.Context(), "/empty"))
	require.EqualError(t, i.engine.probe(t.Context(), "/moved"), "GET /moved: status 301")
	require.EqualError(t, i.engine.probe(t.Context(), "/gone"), "GET /gone: status 404")
	require.EqualError(t, i.engine.probe(t.Context(), "/broken"), "GET /broken: status 500")
	require.NoError(t, interviewOf(t, e.URL+"/base/", "").engine.probe(t.Context(), "/health"))

	late, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	require.EqualError(t, i.engine.probe(late, "/ok"), "GET /ok: no answer within the time limit")
}

func TestAnswersAreBounded(t *testing.T) {
	e := startEngine(t, map[string]page{"/long": ok(strings.Repeat("x", maxAnswer+1)), "/full": ok(strings.Repeat("x", maxAnswer))})
	i := interviewOf(t, e.URL, "")
	_, err := i.engine.get(t.Context(), "/long")
	require.ErrorContains(t, err, "longer than 1048576 bytes")
	a, err := i.engine.get(t.Context(), "/full")
	require.NoError(t, err)
	require.Len(t, a.body, maxAnswer)
}

// workers.md section 13: with http2 the probe speaks HTTP/2, and a worker that cannot fails
func TestHTTP2IsSpokenWithoutTLS(t *testing.T) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	}))
	srv.Config.Protocols = &protocols
	srv.Start()
	defer srv.Close()
	old := startEngine(t, map[string]page{"/health": ok("")})
	for _, keep := range []bool{true, false} {
		c := newClients(keep)
		speak := func(url string) error {
			return c.to(&Endpoint{Base: url}, "", true).probe(t.Context(), "/health")
		}
		require.NoError(t, speak(srv.URL))
		require.Error(t, speak(old.URL))
		c.close()
	}
}

// workers.md section 15, capture.md section 3
func TestMetadataBecomesLabels(t *testing.T) {
	type labels = map[string]string
	type pages = map[string]page
	with := func(base, more pages) pages {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	tests := []struct {
		name    string
		runtime Runtime
		pages   pages
		want    labels
	}{
		{
			"SGLang", SGLang, sglang("m"),
			labels{"tp_size": "2", "served_model_name": "m", "model_type": "llama", "architectures": `["LlamaForCausalLM"]`, "tokenizer_path": "/m/t", "model_path": "/m/m", "max_model_len": "4096"},
		},
		{
			"an old SGLang, with what must not be taken", SGLang,
			pages{
				"/get_server_info": ok(`{"tp_size":2,"dp_size":0,"is_embedding":false,"api_key":"x","version":"null","model":"org/m","load_balance_method":"auto"}`),
				"/get_model_info":  ok(`{"model_path":"p","is_generation":true,"weight_version":"9"}`),
			},
			labels{"tp_size": "2", "is_embedding": "false", "model_id": "org/m", "load_balance_method": "auto", "model_path": "p", "is_generation": "true"},
		},
		{
			"only a 404 asks the old route", SGLang,
			with(sglang("m"), pages{"/server_info": {500, ""}, "/get_server_info": ok(`{"tp_size":9}`), "/model_info": {401, ""}, "/get_model_info": ok(`{"model_type":"x"}`)}),
			labels{"served_model_name": "m", "model_path": "/m/m", "max_model_len": "4096"},
		},
		{
			"model info overwrites, the list only fills", SGLang,
			with(sglang("m"), pages{"/server_info": ok(`{"model_path":"a","served_model_name":"s"}`), "/model_info": ok(`{"model_path":"b"}`)}),
			labels{"served_model_name": "s", "model_path": "b", "max_model_len": "4096"},
		},
		{
			"vLLM", VLLM,
			pages{"/v1/models": ok(`{"data":[{"id":"tiny","root":"/models/tiny","max_model_len":4096,"parent":null}]}`), "/version": ok(`{"version":"0.32.0"}`), "/server_info": ok(`{"tp_size":3}`)},
			labels{"served_model_name": "tiny", "model_path": "/models/tiny", "max_model_len": "4096", "version": "0.32.0"},
		},
		{
			"a generic server is asked for its list only", Generic,
			pages{"/v1/models": ok(`{"data":[{"id":"tiny","max_model_len":-1}]}`), "/server_info": ok(`{"tp_size":3}`)},
			labels{"served_model_name": "tiny"},
		},
		{"nothing there", SGLang, pages{}, labels{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, tt.pages)
			got, complete := interviewOf(t, e.URL, "").metadata(t.Context(), tt.runtime)
			require.True(t, complete)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestMetadataThatGotNoAnswerIsNotComplete(t *testing.T) {
	e := startEngine(t, sglang("m"))
	i := interviewOf(t, e.URL, "")
	_, err := i.detect(t.Context())
	require.NoError(t, err)
	e.Close()
	labels, complete := i.metadata(t.Context(), SGLang)
	require.False(t, complete)
	require.Equal(t, map[string]string{"served_model_name": "m", "model_path": "/m/m", "max_model_len": "4096"}, labels, "what is known already is used")
}

// workers.md section 15
func TestFlattening(t *testing.T) {
	got := flatten([]byte(`{"text":"a","null text":"null","empty":"","one":1,"zero":0,"zero point":0.0,"minus zero":-0,"whole":4096.0,"exponent":1e3,
		"point":0.5,"large":18446744073709551615,"minus":-3,"yes":true,"no":false,"list":[ "a", 1 ],"no list":[],"object":{"a":1},"nothing":null,"too large":1e400}`))
	require.Equal(t, map[string]string{
		"text": "a", "one": "1", "whole": "4096", "exponent": "1000", "point": "0.5", "large": "18446744073709551615", "minus": "-3",
		"yes": "true", "no": "false", "list": `["a",1]`,
	}, got)
	for _, body := range []string{``, `[]`, `null`, `"x"`, `{`, `{"a":1}x`} {
		require.Empty(t, flatten([]byte(body)), body)
	}
}

func FuzzFlatten(f *testing.F) {
	for _, s := range []string{`{"a":1e3,"b":[1, 2],"c":"x","d":-0.0}`, `{"a":123456789012345678901234567890}`, `{"":[[]]}`, `null`, "{\"a\":\"\xff\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for k, v := range flatten(body) {
			require.NotEmpty(t, v, k)
			require.NotEqual(t, "null", v)
		}
		_, _ = firstModel(answer{http.StatusOK, body})
	})
}
