package stages

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// workers.md, section 20: https alone, and not into private networks.
func TestURLsOfIssuers(t *testing.T) {
	const inside = "must not be in a private network"
	tests := []struct{ url, want string }{
		{"https://idp.example/realms/a", ""},
		{"https://idp.example:8443/keys?x=1", ""},
		{"https://93.184.216.34/keys", ""},
		{"https://[2606:2800:220:1::1]/keys", ""},
		{"http://localhost:8080/keys", ""},
		{"http://127.0.0.1/keys", ""},
		{"http://[::1]:1/keys", ""},
		{"https://localhost/keys", ""},
		{"http://idp.example/keys", "must begin with https://"},
		{"http://127.0.0.2/keys", "must begin with https://"},
		{"http://localhost.evil.example/keys", "must begin with https://"},
		{"ftp://idp.example/keys", "must begin with https://"},
		{"file:///etc/passwd", "must be an absolute URL"},
		{"idp.example", "must be an absolute URL"},
		{"https:idp.example", "must be an absolute URL"},
		{"https://", "must be an absolute URL"},
		{"", "must be an absolute URL"},
		{"https://a b/", "must be an absolute URL"},
		{"https://user:pw@idp.example/", "must not carry credentials"},
		{"https://10.0.0.1/", inside},
		{"https://172.16.0.1/", inside},
		{"https://192.168.1.1/", inside},
		{"https://127.0.0.2/", inside},
		{"https://169.254.169.254/latest/meta-data", inside},
		{"https://100.64.0.1/", inside},
		{"https://0.0.0.0/", inside},
		{"https://[::]/", inside},
		{"https://[fe80::1]/", inside},
		{"https://[fd00::1]/", inside},
		{"https://[::ffff:10.0.0.1]/", inside},
		{"https://[64:ff9b::a00:1]/", inside},
		{"https://metadata.google.internal/", inside},
		{"https://IDP.INTERNAL./", inside},
		{"https://idp.local/", inside},
		{"https://keycloak.auth.svc.cluster.local/", inside},
		{"https://local/", inside},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			err := CheckIssuerURL(tt.url)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// A name that is fine may stand for an address that is not: it is looked at again when it is known.
func TestAddressesOfIssuersAreChecked(t *testing.T) {
	for address, inside := range map[string]bool{
		"93.184.216.34": false, "100.63.255.255": false, "100.128.0.1": false, "11.0.0.1": false, "2606:4700::1": false,
		"10.1.2.3": true, "127.0.0.1": true, "::1": true, "169.254.1.1": true, "100.127.255.255": true, "224.0.0.1": true, "::ffff:127.0.0.1": true,
		"240.0.0.1": true, "fe80::1%eth0": true, "192.0.0.8": true, "198.19.0.1": true,
	} {
		require.Equal(t, inside, isInside(netip.MustParseAddr(address)), address)
	}
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	_, err := dialIssuer(context.Background(), "tcp", "127.0.0.2:"+port)
	require.ErrorIs(t, err, errInside)
	conn, err := dialIssuer(context.Background(), "tcp", "localhost:"+port)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func FuzzIssuerURL(f *testing.F) {
	for _, url := range []string{"https://a", "http://localhost", "https://10.0.0.1", "https://[::1%25x]", "https://a@b", "//x", "https://[::ffff:7f00:1]", "%"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		if CheckIssuerURL(url) == nil {
			require.True(t, strings.HasPrefix(strings.ToLower(url), "http"), url)
		}
	})
}
