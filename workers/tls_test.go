package workers

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md section 12.3: who dials is told whether the worker can be trusted, as an error of dialling.
func TestTLSDial(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	trusting := TLS(func() *tls.Config {
		return &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	})
	tests := []struct {
		name, address, protocol string
		tls                     TLS
		unknown, refused        bool
	}{
		{"an authority that was named is believed", s.Listener.Addr().String(), "http/1.1", trusting, false, false},
		{"the protocol that was asked for is spoken", s.Listener.Addr().String(), "h2", trusting, false, false},
		{"by default the system decides whom to believe", s.Listener.Addr().String(), "http/1.1", nil, true, false},
		{"nobody listens", closed.Addr().String(), "http/1.1", trusting, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tt.tls.Dial(&net.Dialer{Timeout: 10 * time.Second}, tt.protocol)(t.Context(), "tcp", tt.address)
			if tt.unknown || tt.refused {
				var dialing *net.OpError
				require.ErrorAs(t, err, &dialing)
				require.Equal(t, "dial", dialing.Op)
				var untrusted x509.UnknownAuthorityError
				require.Equal(t, tt.unknown, errors.As(err, &untrusted), err)
				require.Nil(t, c)
				return
			}
			require.NoError(t, err)
			defer c.Close()
			require.Equal(t, tt.protocol == "h2", c.(*tls.Conn).ConnectionState().NegotiatedProtocol == "h2")
		})
	}
}
