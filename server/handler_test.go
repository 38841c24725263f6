package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// says is a chain that answers a route with a text.
func says(t testing.TB, route, text string) *pipeline.Chain {
	t.Helper()
	return ending(t, route, func(x *pipeline.Exchange, _ pipeline.Next) error {
		return answer(x, http.StatusOK, "text/plain", []byte(text))
	})
}

func ending(t testing.TB, route string, handle func(*pipeline.Exchange, pipeline.Next) error) *pipeline.Chain {
	t.Helper()
	c, err := pipeline.Assemble(route, pipeline.StageFunc("says", pipeline.Contract{}, handle))
	require.NoError(t, err)
	return c
}

// newRuntime is a runtime that stops when the test ends.
func newRuntime(t testing.TB) *pipeline.Runtime {
	t.Helper()
	rt := pipeline.NewRuntime(nil)
	t.Cleanup(func() { rt.Stop(context.Background()) })
	return rt
}

// hosted is somebody's server on loopback.
func hosted(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.Close(); http.DefaultClient.CloseIdleConnections() })
	return srv
}

func ask(t testing.TB, method, url, body string) response {
	t.Helper()
	req, err := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return response{resp, string(read), err}
}

// http-dataplane.md section 2.6, for chains of a program's own
func TestChainsAreServedWithoutAGateway(t *testing.T) {
	h, err := Handler(newRuntime(t), says(t, "GET /a", "a"), says(t, "POST /b", "b"), says(t, "GET /m/{name}", "m"),
		says(t, "HEAD /b", ""), says(t, "OPTIONS /a", "mine"))
	require.NoError(t, err)
	srv := hosted(t, h)
	const unknown = `{"error":{"message":"Invalid URL (GET /nope)","type":"invalid_request_error","param":null,"code":"unknown_url"}}`
	const wrong = `{"error":{"message":"Method not allowed (DELETE /b)","type":"invalid_request_error","param":null,"code":"method_not_allowed"}}`
	tests := []struct {
		name, method, path string
		status             int
		body, allow        string
	}{
		{"a route goes to its chain", "GET", "/a", 200, "a", ""},
		{"what answers GET answers HEAD", "HEAD", "/a", 200, "", ""},
		{"another method is another route", "POST", "/b", 200, "b", ""},
		{"a variable is any one segment", "GET", "/m/x", 200, "m", ""},
		{"a method that nobody answers by itself has its own chain", "HEAD", "/b", 200, "", ""},
		{"and so has one that the router would answer", "OPTIONS", "/a", 200, "mine", ""},
		{"a path that no chain has is refused in the documented form", "GET", "/nope", 404, unknown, ""},
		{"a method that the path does not know is refused with those that it does", "DELETE", "/b", 405, wrong, "POST, HEAD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ask(t, tt.method, srv.URL+tt.path, "")
			require.Equal(t, tt.status, got.StatusCode)
			require.Equal(t, tt.body, got.Body)
			require.Equal(t, tt.allow, got.Header.Get("Allow"))
		})
	}
}

// A program that counts or shapes its refusals gives a chain for them.
func TestAChainForWhatIsUnmatchedIsUsed(t *testing.T) {
	refusals, err := pipeline.Assemble(UnmatchedRoute, UnknownURL())
	require.NoError(t, err)
	h, err := Handler(newRuntime(t), says(t, "GET /a", "a"), refusals.WithForm(adminForm))
	require.NoError(t, err)
	srv := hosted(t, h)
	got := ask(t, "POST", srv.URL+"/a", "")
	require.Equal(t, http.StatusMethodNotAllowed, got.StatusCode)
	require.Equal(t, "GET, HEAD", got.Header.Get("Allow"))
	require.Equal(t, `{"error":"Method not allowed (POST /a)","code":"method_not_allowed"}`, got.Body)
	require.Equal(t, "a", ask(t, "GET", srv.URL+"/a", "").Body)
}

// DESIGN.md section 3, "Running": the chains of a handler's routes can be served anew; a route without one is no empty 200.
func TestAHandlerFollowsItsRuntime(t *testing.T) {
	rt := newRuntime(t)
	h, err := Handler(rt, says(t, "GET /a", "old"), says(t, "GET /b", "b"))
	require.NoError(t, err)
	srv := hosted(t, h)
	require.Equal(t, "old", ask(t, "GET", srv.URL+"/a", "").Body)
	require.NoError(t, rt.Serve(says(t, "GET /a", "new")))
	require.Equal(t, "new", ask(t, "GET", srv.URL+"/a", "").Body)
	got := ask(t, "GET", srv.URL+"/b", "")
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	require.Equal(t, "unknown_url", got.Header.Get("X-Smg-Error-Code"))
}

func TestARouteThatCannotBeTakenIsRefused(t *testing.T) {
	const shape = " is not a method and a path, such as POST /v1/chat/completions"
	tests := []struct {
		name   string
		routes []string
		want   string
	}{
		{"no method", []string{"/a"}, `route "/a"` + shape},
		{"no path", []string{"GET"}, `route "GET"` + shape},
		{"no slash in front", []string{"GET a"}, `route "GET a"` + shape},
		{"a method that is none", []string{"G(T /a"}, `route "G(T /a"` + shape},
		{"half a brace", []string{"GET /a/{b"}, `route "GET /a/{b": a segment is plain text or one {name}; "{b" is neither`},
		{"a name inside a segment", []string{"GET /a{b}"}, `route "GET /a{b}": a segment is plain text or one {name}; "a{b}" is neither`},
		{"no name", []string{"GET /{}"}, `route "GET /{}": a segment is plain text or one {name}; "{}" is neither`},
		{"what the router reads as a name", []string{"GET /:a"}, `route "GET /:a": a segment is plain text or one {name}; ":a" is neither`},
		{"what the router reads as the rest", []string{"GET /*"}, `route "GET /*": a segment is plain text or one {name}; "*" is neither`},
		{"a query", []string{"GET /a?b"}, `route "GET /a?b": a segment is plain text or one {name}; "a?b" is neither`},
		{"one path with two names", []string{"GET /{a}", "POST /{b}"}, `route "POST /{b}": /{a} and /{b} are one path with two names; use the same`},
		{"a route twice", []string{"GET /a", "GET /a"}, "two chains for the route GET /a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var chains []*pipeline.Chain
			for _, route := range tt.routes {
				chains = append(chains, says(t, route, ""))
			}
			rt := newRuntime(t)
			_, err := Handler(rt, chains...)
			require.EqualError(t, err, tt.want)
			require.Nil(t, rt.Chain(tt.routes[0]), "nothing is served")
		})
	}
	_, err := Handler(newRuntime(t), nil)
	require.EqualError(t, err, "chain 1 is nil")
}

func TestChainsAreDescribedInThreeFormats(t *testing.T) {
	chain := says(t, "GET /a", "a")
	for format, want := range map[string]string{"text": "GET /a\n  says\n", "json": `"route": "GET /a"`, "mermaid": `way1["GET /a"]`} {
		var b bytes.Buffer
		require.NoError(t, Describe(&b, format, chain))
		require.Contains(t, b.String(), want)
	}
	require.EqualError(t, Describe(io.Discard, "xml", chain), `there is no format "xml"; there are text, json and mermaid`)
}

// deadlines notes the deadlines that are set on a connection.
type deadlines struct {
	http.ResponseWriter
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return http.NewResponseController(d.ResponseWriter).SetReadDeadline(t)
}

// http-dataplane.md section 3: a stall is a wait for the next bytes, not the time that the whole body takes.
func TestEveryReadFromSomebodysConnectionHasItsOwnTime(t *testing.T) {
	const pieces = 3
	read := make(chan int)
	h, err := Handler(newRuntime(t), ending(t, "POST /a", func(x *pipeline.Exchange, _ pipeline.Next) error {
		x.Client.SetReadTimeout(time.Hour)
		for buf := make([]byte, 16); ; {
			n, err := x.Client.Read(buf)
			if err != nil {
				return answer(x, http.StatusOK, "text/plain", []byte(err.Error()))
			}
			read <- n
		}
	}))
	require.NoError(t, err)
	var noted *deadlines
	srv := hosted(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noted = &deadlines{ResponseWriter: w}
		h.ServeHTTP(noted, r)
	}))
	body, upload := io.Pipe()
	go func() {
		for range pieces {
			_, _ = upload.Write([]byte("x"))
			<-read // the next piece is not there before this one was read
		}
		_ = upload.Close()
	}()
	resp, err := http.Post(srv.URL+"/a", "text/plain", body)
	require.NoError(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "EOF", string(all))
	require.Len(t, noted.set, pieces+2, "one for each read, that of the end included, and one that takes it away")
	require.True(t, noted.set[0].Before(noted.set[pieces-1]))
	require.Zero(t, noted.set[pieces+1])
}
