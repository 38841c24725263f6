package workers

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine is a real server that answers GETs with what a test has given it, and remembers what it was asked.
type fakeEngine struct {
	*httptest.Server

	mu    sync.Mutex
	pages map[string]page
	asked []*http.Request
}

// page is an answer: a status, a body.
type page struct {
	status int
	body   string
}

func ok(body string) page { return page{http.StatusOK, body} }

// startEngine serves pages by path; what has no page is a 404.
func startEngine(t testing.TB, pages map[string]page) *fakeEngine {
	t.Helper()
	e := &fakeEngine{pages: pages}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked = append(e.asked, r)
	p, ok := e.pages[r.URL.Path]
	e.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	if p.status == http.StatusMovedPermanently {
		w.Header().Set("Location", "/ok")
	}
	w.WriteHeader(p.status)
	_, _ = w.Write([]byte(p.body))
}

func (e *fakeEngine) set(path string, p page) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.pages[path] = p
}

func (e *fakeEngine) requests() []*http.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]*http.Request(nil), e.asked...)
}

// sglang are the pages of a healthy SGLang engine that serves a model.
func sglang(model string) map[string]page {
	return map[string]page{
		"/health":      ok(""),
		"/v1/models":   ok(`{"data":[{"id":"` + model + `","owned_by":"sglang","root":"/m/` + model + `","max_model_len":4096}]}`),
		"/server_info": ok(`{"tp_size":2,"served_model_name":"` + model + `","api_key":"hidden"}`),
		"/model_info":  ok(`{"model_type":"llama","architectures":["LlamaForCausalLM"],"tokenizer_path":"/m/t"}`),
	}
}

// made is a worker, ready, and not registered.
func made(t testing.TB, spec Spec) *Worker {
	t.Helper()
	w, err := New(spec, DefaultSettings())
	require.NoError(t, err)
	w.SetStatus(Ready)
	return w
}

// serving is the spec of a worker of one model.
func serving(url, model string) Spec {
	s := NewSpec(url)
	if model != "" {
		s.Models = []Card{{ID: model}}
	}
	return s
}

// eventually waits for a condition; the limit is for a broken program only.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, time.Millisecond, what)
}

// roundTrip is a transport for tests of schedules, which have no sockets and run in a bubble of their own time.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func status(code int, body string) *http.Response {
	rec := httptest.NewRecorder()
	rec.WriteHeader(code)
	_, _ = rec.WriteString(body)
	return rec.Result()
}
