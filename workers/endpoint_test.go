package workers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// workers.md section 1, cli.md section 6.2, cases.md C17
func TestEndpointIsTakenApart(t *testing.T) {
	tests := []struct {
		name, raw string
		want      Endpoint
	}{
		{
			"a plain URL", "http://10.0.0.5:8000",
			Endpoint{"http://10.0.0.5:8000", "http://10.0.0.5:8000", "10.0.0.5:8000", "http", "10.0.0.5:8000", "10.0.0.5:8000", "", HTTP},
		},
		{
			"slashes at the end are dropped", "http://127.0.0.1:9001//",
			Endpoint{"http://127.0.0.1:9001", "http://127.0.0.1:9001", "127.0.0.1:9001", "http", "127.0.0.1:9001", "127.0.0.1:9001", "", HTTP},
		},
		{
			"a prefix is kept", "http://127.0.0.1:9001/base/",
			Endpoint{"http://127.0.0.1:9001/base", "http://127.0.0.1:9001/base", "127.0.0.1:9001/base", "http", "127.0.0.1:9001", "127.0.0.1:9001", "/base", HTTP},
		},
		{
			"an IPv6 address keeps its brackets", "http://[fd00::1]:8000",
			Endpoint{"http://[fd00::1]:8000", "http://[fd00::1]:8000", "[fd00::1]:8000", "http", "[fd00::1]:8000", "[fd00::1]:8000", "", HTTP},
		},
		{
			"https has port 443", "https://w.example.com",
			Endpoint{"https://w.example.com", "https://w.example.com", "w.example.com:443", "https", "w.example.com", "w.example.com:443", "", HTTP},
		},
		{
			"a rank never leaves the gateway", "grpc://10.0.0.1:8080@2",
			Endpoint{"grpc://10.0.0.1:8080@2", "grpc://10.0.0.1:8080", "10.0.0.1:8080", "grpc", "10.0.0.1:8080", "10.0.0.1:8080", "", GRPC},
		},
		{
			"a rank of an IPv6 worker", "http://[::1]:9001@0",
			Endpoint{"http://[::1]:9001@0", "http://[::1]:9001", "[::1]:9001", "http", "[::1]:9001", "[::1]:9001", "", HTTP},
		},
		{
			"a slash before the rank is no part of the base", "http://h:1/@3",
			Endpoint{"http://h:1@3", "http://h:1", "h:1", "http", "h:1", "h:1", "", HTTP},
		},
		{
			"grpcs without a port", "grpcs://h",
			Endpoint{"grpcs://h", "grpcs://h", "h:443", "grpcs", "h", "h:443", "", GRPC},
		},
		{"a socket", "ipc:///tmp/e", Endpoint{URL: "ipc:///tmp/e", Base: "ipc:///tmp/e", Address: "/tmp/e", Scheme: "ipc", Mode: ZMQ}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseEndpoint(tt.raw)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// workers.md section 1, cli.md section 6.2, cases.md C17
func TestEndpointRefusesWhatCannotBeReached(t *testing.T) {
	const scheme = "URL must start with a lowercase http://, https://, grpc://, grpcs://, or ipc:// scheme"
	tests := []struct{ name, raw, reason string }{
		{"nothing", "", "URL cannot be empty"},
		{"no scheme", "10.0.0.5:8000", scheme},
		{"a scheme in capitals", "HTTP://10.0.0.5:8000", scheme},
		{"a scheme in mixed case", "Grpc://h:1", scheme},
		{"another scheme", "ftp://h:21", scheme},
		{"no host", "http://", "URL must have a valid host"},
		{"a port alone", "http://:80", "URL must have a valid host"},
		{"no socket path", "ipc://", "ipc:// worker URL must include a socket path"},
		{"a port that is no number", "http://h:x", `Invalid URL format: invalid port ":x" after host`},
		{"a port that is too large", "http://h:65536", "Invalid URL format: port must be from 1 to 65535"},
		{"port 0", "http://h:0", "Invalid URL format: port must be from 1 to 65535"},
		{"a query", "http://h:1/?a=b", "URL must not have a query or a fragment"},
		{"an empty query", "http://h:1?", "URL must not have a query or a fragment"},
		{"a fragment", "http://h:1#", "URL must not have a query or a fragment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseEndpoint(tt.raw)
			require.EqualError(t, err, "Invalid value for field 'worker_url': "+tt.raw+" - "+tt.reason)
		})
	}
}

func TestEndpointDoesNotRepeatAPassword(t *testing.T) {
	_, err := ParseEndpoint("http://user:secret@h:1")
	require.ErrorContains(t, err, "must not carry credentials")
	require.NotContains(t, err.Error(), "secret")
}

func FuzzParseEndpoint(f *testing.F) {
	for _, raw := range []string{"http://h:1", "https://[::1]/a/b/", "grpc://h@7", "ipc:///x", "http://%41/", "http://h:1@2@3", "http://h//@1"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		e, err := ParseEndpoint(raw)
		if err != nil {
			return
		}
		again, err := ParseEndpoint(e.URL)
		require.NoError(t, err, "what is registered can be registered again")
		require.Equal(t, e, again)
	})
}
