package workers

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// DECISIONS 51: a cordoned worker is no candidate, and everything else of it stays as it is
func TestACordonedWorkerIsNoCandidate(t *testing.T) {
	r := NewRegistry(made(t, serving("http://w:1", "m")), made(t, serving("http://w:2", "m")))
	w := r.ByURL("http://w:1")
	counts := func() []int {
		l := r.Pool("m", Regular, HTTP)
		plain := ListOf(l.Members()...)
		require.Equal(t, plain.NotReady(), l.NotReady(), "what the registry has counted is what there is")
		require.Equal(t, plain.Cordoned(), l.Cordoned())
		return []int{l.NotReady(), l.Cordoned()}
	}
	require.Equal(t, []int{0, 0}, counts())
	steps := []struct {
		name      string
		do        func()
		counts    []int // not ready, and of these cordoned alone
		candidate bool
	}{
		{"cordoned", func() { require.True(t, r.Cordon(w, true)) }, []int{1, 1}, false},
		{"cordoned once more", func() { require.True(t, r.Cordon(w, true)) }, []int{1, 1}, false},
		{"its health checks fail: that is the reason now", func() { w.SetStatus(NotReady) }, []int{1, 0}, false},
		{"they pass again", func() { w.SetStatus(Ready) }, []int{1, 1}, false},
		{"let go", func() { require.True(t, r.Cordon(w, false)) }, []int{0, 0}, true},
		{"cordoned and removed", func() { r.Cordon(w, true); w.SetStatus(Draining) }, []int{1, 0}, false},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			s.do()
			require.Equal(t, s.counts, counts())
			require.Equal(t, s.candidate, w.Candidate())
			require.Equal(t, s.candidate, w.Available())
		})
	}
	require.Equal(t, 2, r.Pool("m", Regular, HTTP).Len(), "it stays on every list")
	require.True(t, r.Remove(w))
	require.False(t, r.Cordon(w, false), "it is not registered any more")
}

// DECISIONS 51: GET /workers tells of a cordon beside the status
func TestAViewShowsACordon(t *testing.T) {
	r := NewRegistry(made(t, serving("http://w:1", "m")))
	w := r.All()[0]
	require.NotContains(t, shown(t, w.View()), "cordoned")
	require.True(t, r.Cordon(w, true))
	require.Contains(t, shown(t, w.View()), `"is_healthy":true,"status":"ready","cordoned":true`)
}

// workers.md section 16: a replacement goes on where the registration was
func TestACordonGoesOverToTheNextRevision(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := NewRegistry(made(t, serving("http://w:1", "m")))
		was := r.All()[0]
		require.True(t, r.Cordon(was, on))
		now := made(t, serving("http://w:1", "other"))
		now.succeed(was)
		require.True(t, r.Replace(was, now))
		require.Equal(t, on, now.Cordoned())
		require.Equal(t, on, r.Pool("other", Regular, HTTP).Cordoned() == 1)
		require.False(t, r.Cordon(was, !on), "it is not the registration any more")
		require.Equal(t, on, now.Cordoned())
		require.True(t, r.Cordon(now, false))
		require.Zero(t, r.Pool("other", Regular, HTTP).NotReady())
	}
}

// discovery.md section 6: a pod's address has no scheme
func TestAnAddressWithoutASchemeIsProbedOverHTTP(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	e := enrollerOf(t, quick, nil)
	spec := NewSpec(addressOf(engine.URL))
	spec.APIKey = "secret"
	require.NoError(t, e.Upsert(t.Context(), spec))
	eventually(t, "registered", func() bool { w := e.registry.ByURL(engine.URL); return w != nil && w.Ready() })
	for _, r := range engine.requests() {
		require.Equal(t, "Bearer secret", r.Header.Get("Authorization"), r.URL)
	}
	n, err := e.newEnrolment(NewSpec("http://[::1]:8000"), upsert)
	require.NoError(t, err)
	require.Equal(t, "[::1]:8000", n.endpoint.Address)
	require.ErrorContains(t, e.Upsert(t.Context(), NewSpec("::1")), "worker_url", "no host:port")
}

// workers.md section 13: https:// is tried only when the URL says so. An engine that speaks TLS alone is not found at its bare address.
func TestTLSIsTriedOnlyWhenTheURLSaysSo(t *testing.T) {
	hellos := make(chan struct{}, 100) // of clients that speak TLS
	engine := httptest.NewUnstartedServer(http.NotFoundHandler())
	engine.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		hellos <- struct{}{}
		return nil, nil
	}}
	engine.Config.ErrorLog = log.New(io.Discard, "", 0)
	engine.StartTLS()
	t.Cleanup(engine.Close)
	address := addressOf(engine.URL)
	for url, encrypted := range map[string]bool{address: false, "http://" + address: false, "https://" + address: true} {
		e := enrollerOf(t, Startup{Interval: 5 * time.Millisecond, Timeout: 20 * time.Millisecond}, nil)
		require.NoError(t, e.Upsert(t.Context(), NewSpec(url)))
		eventually(t, "given up", func() bool { s, ok := e.jobs.Status(address); return ok && s.Status == jobFailed })
		require.Zero(t, e.registry.Len())
		if !encrypted {
			require.Empty(t, hellos, url)
			continue
		}
		require.NotEmpty(t, hellos, url)
		for len(hellos) > 0 {
			<-hellos
		}
	}
}

// discovery.md section 8: a removal acts on what its guards hold for, and tells when it is over
func TestRemoveTheseTellsWhenItIsOver(t *testing.T) {
	settings := DefaultSettings()
	settings.DrainSettle = 0
	e := NewEnroller(NewRegistry(made(t, NewSpec("http://w:1")), made(t, NewSpec("grpc://w:1"))), settings, quick, nil)
	defer e.Close()
	for _, w := range e.registry.All() {
		w.settings.DrainSettle = 0
	}
	over := make(chan struct{}, 3)
	w := e.registry.ByURL("grpc://w:1")
	require.NoError(t, e.RemoveThese(t.Context(), "w:1", []Guard{PinTo(w)}, func() { over <- struct{}{} }))
	<-over
	require.Len(t, e.registry.All(), 1)
	require.NoError(t, e.RemoveThese(t.Context(), "w:1", []Guard{PinTo(w)}, func() { over <- struct{}{} }))
	<-over
	require.NoError(t, e.RemoveThese(t.Context(), "w:1", nil, func() { over <- struct{}{} }))
	<-over
	require.Len(t, e.registry.All(), 1, "no guard holds for nobody")
}
