package engine

import (
	"bytes"
	"crypto/subtle"
	"strings"
	"sync/atomic"
)

// route is what an engine does on one path.
type route struct {
	methods  string // GET, POST or "GET POST"
	infers   bool
	open     bool // SGLang asks for no key
	handle   func(*conn) error
	requests atomic.Int64
}

// newRoutes gives the paths of the engine's kind. Whatever is not here is 404, as it is in that engine.
func (e *Engine) newRoutes() map[string]*route {
	routes := map[string]*route{
		"/health":    {methods: "GET", open: true, handle: e.healthy},
		"/ping":      {methods: "GET POST", open: true, handle: e.healthy},
		"/metrics":   {methods: "GET", open: true, handle: e.metrics},
		"/v1/models": {methods: "GET", handle: e.listModels},
	}
	for path, api := range map[string]*api{
		"/v1/chat/completions": chat, "/v1/completions": completions, "/generate": generate,
		"/v1/embeddings": embeddings, "/v1/classify": classify, "/v1/rerank": rerank,
		"/v1/messages": messages, "/v1/messages/count_tokens": countTokens, "/v1/responses": responses,
		"/v1/audio/transcriptions": transcriptions,
	} {
		routes[path] = &route{methods: "POST", infers: true, handle: func(c *conn) error { return e.infer(c, api) }}
	}
	if e.cfg.Engine == VLLM {
		e.addVLLM(routes)
	} else {
		e.addSGLang(routes)
	}
	return routes
}

func (e *Engine) addVLLM(routes map[string]*route) {
	routes["/version"] = &route{methods: "GET", handle: e.version}
	routes["/load"] = &route{methods: "GET", handle: e.serverLoad}
}

func (e *Engine) addSGLang(routes map[string]*route) {
	routes["/health_generate"] = &route{methods: "GET", open: true, handle: e.healthy}
	routes["/v1/loads"] = &route{methods: "GET", handle: e.loads}
	routes["/get_load"] = &route{methods: "GET", handle: e.getLoad}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		routes[path] = &route{methods: "GET", handle: e.serverInfo}
	}
	for _, path := range []string{"/model_info", "/get_model_info"} {
		routes[path] = &route{methods: "GET", handle: e.modelInfo}
	}
	routes["/flush_cache"] = &route{methods: "GET POST", handle: e.flushCache}
	for path, said := range map[string]string{
		"/start_profile": "Start profiling.\n",
		"/stop_profile":  "Stop profiling. This will take some time.\n",
	} {
		routes[path] = &route{methods: "GET POST", handle: func(c *conn) error { return c.send(200, plainType, []byte(said)) }}
	}
}

// route finds a request's route; control is true for the /mock paths. An unknown path has the route that only counts.
func (e *Engine) route(h *head) (r *route, control bool) {
	if r := e.routes[string(h.path)]; r != nil {
		return r, false
	}
	return &e.other, bytes.HasPrefix(h.path, []byte("/mock/"))
}

// serve answers a request that no fault has answered.
func (e *Engine) serve(c *conn, r *route) error {
	if e.guards(c.head.path, r) && !e.authorized(c.head.auth) {
		return c.send(401, jsonType, []byte(`{"error":"Unauthorized"}`))
	}
	if r.handle == nil {
		return c.send(404, jsonType, []byte(`{"detail":"Not Found"}`))
	}
	if !strings.Contains(r.methods, string(c.head.method)) {
		return c.send(405, jsonType, []byte(`{"detail":"Method Not Allowed"}`))
	}
	return r.handle(c)
}

// guards tells whether a path asks for the key: in vLLM all of /v1, known or not, and nothing else; in SGLang all but health and metrics.
func (e *Engine) guards(path []byte, r *route) bool {
	if e.cfg.Engine == VLLM {
		return bytes.HasPrefix(path, []byte("/v1"))
	}
	return !r.open
}

func (e *Engine) authorized(auth []byte) bool {
	if e.cfg.APIKey == "" {
		return true
	}
	scheme, key, _ := bytes.Cut(auth, []byte(" "))
	return is(scheme, "bearer") && subtle.ConstantTimeCompare(key, []byte(e.cfg.APIKey)) == 1
}
