package forward

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 5: each request is told of with its connection, by whichever client it went: whether it was there already.
func TestConnectionsAreTold(t *testing.T) {
	plain, encrypted := httptest.NewServer(mirror), httptest.NewTLSServer(mirror)
	defer plain.Close()
	defer encrypted.Close()
	for _, tt := range []struct{ name, url string }{{"lean", plain.URL}, {"standard", encrypted.URL}} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var told []bool
			tr := testTransport(t)
			tr.options.TLS = func() *tls.Config { return encrypted.Client().Transport.(*http.Transport).TLSClientConfig }
			tr.options.OnConnection = func(reused bool, took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, reused)
				require.True(t, reused || took > 0)
			}
			for range 2 {
				_, _, err := exchangeOnce(tr, callTo(t, tt.url, "body"))
				require.NoError(t, err)
			}
			require.Equal(t, []bool{false, true}, told)
		})
	}
}
