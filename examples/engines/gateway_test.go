package engines_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// gateway is the built smg in front of engines.
type gateway struct{ url string }

// startGateway builds smg and starts it. The engines may still be on their way: smg waits for them.
func startGateway(t *testing.T, engines ...*engine) *gateway {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "smg")
	out, err := exec.Command("go", "build", "-o", binary, "../../cmd/smg").CombinedOutput()
	require.NoError(t, err, string(out))
	port := strconv.Itoa(unusedPort(t))
	args := []string{
		"launch", "--host", "127.0.0.1", "--port", port, "--prometheus-host", "127.0.0.1", "--prometheus-port", "0", "--enable-igw",
		"--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--worker-urls",
	}
	for _, e := range engines {
		args = append(args, e.url)
	}
	p := run(t, nil, binary, args...)
	gw := &gateway{url: "http://127.0.0.1:" + port}
	waitUntil(t, "smg listens", func() bool {
		require.False(t, p.ended(), "smg ended: %s", p.tail(5))
		resp, err := http.Get(gw.url + "/liveness")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return gw
}

// worker is what GET /workers tells of one.
type worker struct {
	URL     string `json:"url"`
	Model   string `json:"model_id"`
	Runtime string `json:"runtime_type"`
	Status  string `json:"status"`
	Load    int    `json:"load"` // requests in flight from smg
}

// worker is the engine as the gateway sees it; the zero worker if it is not registered yet.
func (gw *gateway) worker(t *testing.T, e *engine) worker {
	t.Helper()
	var list struct{ Workers []worker }
	require.NoError(t, json.Unmarshal([]byte(get(t, gw.url+"/workers").body), &list))
	for _, w := range list.Workers {
		if w.URL == e.url {
			return w
		}
	}
	return worker{}
}

// waitUntil waits until the gateway says that the engine has a status.
func (gw *gateway) waitUntil(t *testing.T, e *engine, status string) {
	t.Helper()
	waitUntil(t, fmt.Sprintf("%s at %s is %s", e.name, e.url, status), func() bool { return gw.worker(t, e).Status == status })
}
