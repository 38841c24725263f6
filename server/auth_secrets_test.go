package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// hideout gathers all that a gateway lets out.
type hideout struct {
	t     *testing.T
	texts map[string]string // by where they were seen
}

func (h *hideout) keep(where string, r response) {
	for name, values := range r.Header {
		h.texts[where+": header "+name] += strings.Join(values, "\n")
	}
	h.texts[where] += r.Body
}

// Issue: keys never reach a log, a metric, a trace, an error text or GET /workers. Everything is on: logs at the lowest level, traces,
// explanations, a policy that reads Authorization; and everything goes wrong once.
func TestKeysNeverGetOut(t *testing.T) {
	w := newWorld(t)
	engines := []*engine.Running{engine.Start(t, engine.Config{APIKey: sharedKey}), engine.Start(t, engine.Config{APIKey: sharedKey})}
	g, c := traced(t, func(cfg *Config) {
		w.settings()[8].set(cfg)
		cfg.LogLevel, cfg.ExplainHeader, cfg.Policy, cfg.RoutingKeyOverride = "trace", true, "consistent_hashing", true
		cfg.TrustTenantHeader, cfg.HealthCheckInterval, cfg.RetryMaxRetries = true, 1, 2
	}, engines...)
	h := &hideout{t, map[string]string{}}
	added := `{"url":"` + engine.Start(t, engine.Config{APIKey: someWorkers}).URL + `","api_key":"` + someWorkers + `"}`
	secrets := []string{sharedKey, tenantKey, adminKey, userKey, unknownKey, someWorkers}
	for _, name := range credentialNames() {
		lines := append([]string{"x-smg-explain", "1"}, w.credentials[name]...)
		if len(lines) > 2 && strings.Contains(lines[3], ".") {
			_, token, _ := strings.Cut(lines[3], " ")
			secrets = append(secrets, token, token[strings.LastIndexByte(token, '.')+1:])
		}
		for _, e := range append([]*engine.Running{nil}, engines...) { // once all is well, then not
			if e != nil {
				e.SetFaults(engine.Fault{Status: 503})
			}
			h.keep("chat", g.post(t, chatPath, chat, lines...))
		}
		for _, e := range engines {
			e.SetFaults()
		}
		h.keep("stream", g.post(t, chatPath, chats, lines...))
		h.keep("message", g.post(t, "/v1/messages", `{"model":"m1"}`, lines...))
		h.keep("explain", g.post(t, "/explain", chat, lines...))
		h.keep("unknown", g.post(t, "/nope", chat, lines...))
		h.keep("worker", g.post(t, "/workers", added, lines...))
		h.keep("bad worker", g.post(t, "/workers", `{"url":"ftp://x","api_key":"`+someWorkers+`"}`, lines...))
		for _, path := range []string{"/workers", "/loads", "/get_loads", "/engine_metrics", "/get_server_info", "/get_model_info", "/health_generate", "/v1/models", "/readiness"} {
			h.keep(path, g.do(t, http.MethodGet, path, "", lines...))
		}
	}
	g.quiet(t)
	for _, worker := range g.gateway.registry.All() {
		h.keep("one worker", g.do(t, http.MethodGet, "/workers/"+worker.ID().String(), "", w.credentials["admin's key"]...))
		h.texts["a worker in a log"] += fmt.Sprintf("%v %+v %#v %+v", worker, worker, worker, *worker.Spec())
	}
	resp, err := http.Get(g.Metrics)
	require.NoError(t, err)
	metrics, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	h.texts["metrics"], h.texts["log"] = string(metrics), g.Log.String()
	h.texts["open"] = g.openSurfaces()
	require.Eventually(t, func() bool { // spans come in batches
		c.mu.Lock()
		defer c.mu.Unlock()
		h.texts["spans"] = fmt.Sprint(c.spans)
		return len(c.spans) > 100
	}, patience, 5*time.Millisecond)
	h.check(secrets)
}

func (h *hideout) check(secrets []string) {
	h.t.Helper()
	for _, where := range []string{"metrics", "log", "spans", "chat", "/workers", "one worker"} {
		require.NotEmpty(h.t, h.texts[where], where)
	}
	for where, text := range h.texts {
		for _, secret := range secrets {
			if at := strings.Index(text, secret); at >= 0 {
				h.t.Errorf("%s: %q", where, text[max(0, at-300):min(len(text), at+100)])
			}
		}
	}
}
