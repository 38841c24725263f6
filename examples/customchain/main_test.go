package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for a condition before it gives up: long, since nothing is asserted about time.
const patience = 20 * time.Second

// output is what the program has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs the program until the test ends, when it gets a SIGTERM, and waits until it is ready. It returns its URL.
func start(t *testing.T, args ...string) (url, printed string) {
	t.Helper()
	out, done := &output{}, make(chan error, 1)
	go func() { done <- run(context.Background(), append([]string{"--port", "0"}, args...), out) }()
	require.Eventually(t, func() bool {
		_, after, _ := strings.Cut(out.String(), " on ")
		first, _, whole := strings.Cut(after, "\n")
		url = first
		return whole
	}, patience, time.Millisecond, "it prints no URL")
	t.Cleanup(func() {
		self, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, self.Signal(syscall.SIGTERM))
		require.NoError(t, <-done)
		_, err = net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.Error(t, err, "it still listens")
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	require.Eventually(t, func() bool {
		resp, err := http.Get(url + "/readiness")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, patience, 5*time.Millisecond, "it is never ready")
	return url, out.String()
}

// post sends a chat request of a tenant.
func post(t *testing.T, url, tenant string) (status int, code, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+path, strings.NewReader(`{"model":"unknown","messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Tenant", tenant)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header.Get("X-Smg-Error-Code"), string(read)
}

// asked is how many chat requests an engine got.
func asked(e *engine.Running) (n int) {
	for _, r := range e.Requests() {
		if r.Method == http.MethodPost {
			n++
		}
	}
	return n
}

func tenantsFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenants.txt")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestReservedWorkersServePremiumTenantsAlone(t *testing.T) {
	shared, reserved := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	url, _ := start(t, "--tenants", "tenants.txt", "--worker", shared.URL, "--reserved", reserved.URL)
	const each = 3
	for range each {
		status, _, body := post(t, url, "acme")
		require.Equal(t, http.StatusOK, status, body)
		status, _, body = post(t, url, "initech")
		require.Equal(t, http.StatusOK, status, body)
	}
	require.Equal(t, each, asked(reserved))
	require.Equal(t, each, asked(shared))
}

func TestAPremiumRequestTriesAgainOnASharedWorker(t *testing.T) {
	shared, reserved := engine.Start(t, engine.Config{}), engine.Start(t, engine.Config{})
	url, _ := start(t, "--tenants", "tenants.txt", "--worker", shared.URL, "--reserved", reserved.URL)
	reserved.SetFaults(engine.Fault{Status: http.StatusServiceUnavailable})
	status, _, body := post(t, url, "acme")
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, 1, asked(reserved))
	require.Equal(t, 1, asked(shared))
}

func TestRequestsThatNobodyMayServe(t *testing.T) {
	reserved := engine.Start(t, engine.Config{})
	url, _ := start(t, "--tenants", "tenants.txt", "--reserved", reserved.URL)
	tests := []struct {
		name, tenant string
		status       int
		code         string
	}{
		{"a tenant that is not in the list is refused", "hooli", http.StatusForbidden, "unknown_tenant"},
		{"a request without a tenant is refused", "", http.StatusForbidden, "unknown_tenant"},
		{"a standard tenant gets no reserved worker, even if there is no other", "initech", http.StatusServiceUnavailable, "no_available_workers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, code, _ := post(t, url, tt.tenant)
			require.Equal(t, tt.status, status)
			require.Equal(t, tt.code, code)
		})
	}
	require.Zero(t, asked(reserved))
}

func TestTheListFollowsItsFile(t *testing.T) {
	file := tenantsFile(t, "initech standard\n")
	e := engine.Start(t, engine.Config{})
	url, _ := start(t, "--tenants", file, "--worker", e.URL)
	status, _, _ := post(t, url, "hooli")
	require.Equal(t, http.StatusForbidden, status)
	require.NoError(t, os.WriteFile(file, []byte("initech standard\nhooli premium\n"), 0o600))
	require.Eventually(t, func() bool {
		status, _, _ := post(t, url, "hooli")
		return status == http.StatusOK
	}, patience, 20*time.Millisecond, "the new tenant is not taken up")
	require.NoError(t, os.WriteFile(file, []byte("nonsense\n"), 0o600))
	for range 3 {
		status, _, _ = post(t, url, "hooli")
		require.Equal(t, http.StatusOK, status, "a bad list does not replace a good one")
	}
}

func TestItBringsItsOwnEngines(t *testing.T) {
	url, printed := start(t, "--tenants", "tenants.txt")
	require.Contains(t, printed, "\n  reserve        needs tier, candidates\n")
	for _, tenant := range []string{"acme", "initech"} {
		_, _, body := post(t, url, tenant)
		want := map[string]string{"acme": `"id":"reserved-1`, "initech": `"id":"shared-`}[tenant]
		require.Contains(t, body, want)
	}
	resp, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `smg_http_requests_total{method="POST",path="`+path+`"} 2`)
}

func TestACommandLineThatIsWrongIsRefused(t *testing.T) {
	for want, args := range map[string][]string{
		`what is "x"? There are flags alone`: {"x"},
		`invalid value "ftp://a" for flag`:   {"--worker", "ftp://a"},
	} {
		require.ErrorContains(t, run(t.Context(), args, io.Discard), want)
	}
}
