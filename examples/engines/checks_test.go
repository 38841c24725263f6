package engines_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkService checks what holds for every engine that smg is in front of.
func (f *fleet) checkService(t *testing.T, gw *gateway) {
	t.Run("the engine is detected and its model found out", func(t *testing.T) {
		for _, e := range f.engines {
			require.Equal(t, worker{URL: e.url, Model: f.model, Runtime: f.runtime, Status: "ready"}, gw.worker(t, e))
		}
	})
	t.Run("its model is listed once", func(t *testing.T) {
		var list struct{ Data []struct{ ID string } }
		require.NoError(t, json.Unmarshal([]byte(get(t, gw.url+"/v1/models").body), &list))
		n := 0
		for _, m := range list.Data {
			if m.ID == f.model {
				n++
			}
		}
		require.Equal(t, 1, n, "%v", list)
	})
	t.Run("its metrics are on the page of all engines, with the worker's address", func(t *testing.T) {
		for _, e := range f.engines {
			_, found := sample(t, gw.url+"/engine_metrics", f.running, e.url)
			require.True(t, found, e.url)
		}
	})
	t.Run("a chat has the text that the engine itself answers", func(t *testing.T) {
		for _, e := range f.engines {
			direct := content(t, post(t, e.url+"/v1/chat/completions", chatBody(f.model, 8, false)))
			require.NotEmpty(t, direct)
			require.Equal(t, direct, content(t, post(t, gw.url+"/v1/chat/completions", chatBody(f.model, 8, false))))
		}
	})
	for _, client := range []string{"openai", "anthropic"} {
		t.Run("the official client of "+client+" works", func(t *testing.T) { runClient(t, gw, client, f.model) })
	}
	t.Run("a client that leaves in mid-stream stops the engine", func(t *testing.T) { f.checkLeave(t, gw) })
}

// checkLeave leaves a stream that would go on for long, or for ever.
func (f *fleet) checkLeave(t *testing.T, gw *gateway) {
	for range 5 { // an engine whose front is slower than itself may be through before its client has left
		before := f.made(t)
		s := chat(t, gw.url, f.model, f.endless)
		e := f.serving(t, s.worker)
		if f.newTokens == "" {
			waitUntil(t, "the engine works", func() bool { return e.working(t) == 1 })
		}
		s.leave()
		waitUntil(t, "the engine has stopped", func() bool { return e.working(t) == 0 })
		waitUntil(t, "smg counts nothing in flight", func() bool { return gw.worker(t, e).Load == 0 })
		if f.made(t)-before < f.endless {
			return
		}
	}
	t.Error("the engine went on to the end")
}

// made is how many tokens the engines have made by their own count; 0 of a kind that does not tell.
func (f *fleet) made(t *testing.T) (sum int) {
	t.Helper()
	if f.newTokens == "" {
		return 0
	}
	for _, e := range f.engines {
		tokens, found := sample(t, e.url+"/metrics", f.newTokens, "")
		require.True(t, found)
		sum += int(tokens)
	}
	return sum
}

// working is the number of requests that the engine itself says it works on.
func (e *engine) working(t *testing.T) int {
	t.Helper()
	n, found := sample(t, e.url+"/metrics", e.running, "")
	require.True(t, found)
	return int(n)
}

// serving is the engine that smg says has answered.
func (f *fleet) serving(t *testing.T, url string) *engine {
	t.Helper()
	i := slices.IndexFunc(f.engines, func(e *engine) bool { return e.url == url })
	require.GreaterOrEqual(t, i, 0, "a stranger answered: %q", url)
	return f.engines[i]
}

// checkReturn kills one of two engines in mid-stream, and starts it again.
func (f *fleet) checkReturn(t *testing.T, gw *gateway) {
	s := chat(t, gw.url, f.model, f.endless)
	victim := f.serving(t, s.worker)
	victim.process.kill(t)
	s.requireBroken(t)

	others := func() {
		for range 4 {
			a := post(t, gw.url+"/v1/chat/completions", chatBody(f.model, 8, false))
			require.NotEmpty(t, content(t, a))
			require.NotEqual(t, victim.url, a.worker)
		}
	}
	others() // before smg's probes have noticed
	gw.waitUntil(t, victim, "not_ready")
	others()

	victim.restart(f.owner)
	require.NoError(t, victim.up(t, patience))
	gw.waitUntil(t, victim, "ready")
	waitUntil(t, "the engine serves again", func() bool {
		a := post(t, gw.url+"/v1/chat/completions", chatBody(f.model, 8, false))
		require.NotEmpty(t, content(t, a))
		return a.worker == victim.url
	})
}

// checkLoss kills the only engine of its model in mid-stream.
func checkLoss(t *testing.T, gw *gateway, victim *engine, others *fleet) {
	s := chat(t, gw.url, victim.model, victim.endless)
	victim.process.kill(t)
	s.requireBroken(t)

	gw.waitUntil(t, victim, "not_ready")
	a := post(t, gw.url+"/v1/chat/completions", chatBody(victim.model, 8, false))
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.Contains(t, a.body, "no_available_workers")
	if others.absent == "" {
		require.NotEmpty(t, content(t, post(t, gw.url+"/v1/chat/completions", chatBody(others.model, 8, false))))
	}
}

// requireBroken reads on and demands that the client can see that the stream is not whole.
func (s *stream) requireBroken(t *testing.T) {
	t.Helper()
	rest, err := s.rest()
	require.Error(t, err, "the response ended as if it were whole: %s", rest[max(0, len(rest)-300):])
	require.NoError(t, s.resp.Request.Context().Err(), "it was the test that gave up")
	require.NotContains(t, rest, "[DONE]")
}

// refusal is a request that an engine refuses, with a body that has neither id nor time.
type refusal struct {
	name, path, body string // the model goes in at %q
	status           int
}

var (
	tooLong     = strings.Repeat("word ", 12_000)
	chatTooLong = `{"model":%q,"messages":[{"role":"user","content":"` + tooLong + `"}]}`

	vllmErrors = []refusal{
		{"a prompt that is too long", "/v1/chat/completions", chatTooLong, 400},
		{"a streamed prompt that is too long", "/v1/chat/completions", strings.Replace(chatTooLong, "{", `{"stream":true,`, 1), 400},
		{"a completion that is too long", "/v1/completions", `{"model":%q,"prompt":"` + tooLong + `"}`, 400},
		{"more tokens than the context has", "/v1/chat/completions", `{"model":%q,"messages":[{"role":"user","content":"a"}],"max_tokens":99999}`, 400},
		{"a message that is too long", "/v1/messages", `{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":"` + tooLong + `"}]}`, 400},
		{"embeddings of a model that has none", "/v1/embeddings", `{"model":%q,"input":"a"}`, 404},
		{"a route of another engine", "/generate", `{"model":%q,"text":"a"}`, 404},
	}
	llamaErrors = []refusal{
		{"a prompt that is too long", "/v1/chat/completions", chatTooLong, 400},
		{"a streamed prompt that is too long", "/v1/chat/completions", strings.Replace(chatTooLong, "{", `{"stream":true,`, 1), 400},
		{"a message that is too long", "/v1/messages", `{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":"` + tooLong + `"}]}`, 400},
		{"embeddings that are switched off", "/v1/embeddings", `{"model":%q,"input":"a"}`, 501},
		{"a route of another engine", "/generate", `{"model":%q,"text":"a"}`, 404},
	}
)

// checkErrors sends each request to the engine and through smg.
func checkErrors(t *testing.T, gw *gateway, e *engine, refusals []refusal) {
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			body := fmt.Sprintf(r.body, e.model)
			want := post(t, e.url+r.path, body)
			require.Equal(t, r.status, want.status, want.body)
			got := post(t, gw.url+r.path, body)
			require.NotEmpty(t, got.worker, "smg itself answered: %s", got.body)
			require.Equal(t, answer{want.status, want.contentType, got.worker, want.body}, got)
		})
	}
}
