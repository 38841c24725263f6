package forward

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// mirror answers with what it was asked.
var mirror = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Method", r.Method)
	w.Header().Set("X-Proto", r.Proto)
	w.Header().Set("X-Host", r.Host)
	w.Header().Set("X-Uri", r.RequestURI)
	w.Header().Set("X-Agent", strings.Join(r.Header["User-Agent"], ",")+strings.Join(r.Header["Accept-Encoding"], ","))
	w.Header().Set("Trailer", "X-Sum")
	w.WriteHeader(http.StatusAccepted)
	_, _ = w.Write(body)
	w.Header().Set("X-Sum", "7")
})

func TestRoundTripServesAnHTTPClient(t *testing.T) {
	s := httptest.NewServer(mirror)
	defer s.Close()
	tr := testTransport(t)
	client := http.Client{Transport: tr}
	defer client.CloseIdleConnections()
	for _, size := range []int{0, 10, direct, direct + 1, 1 << 20} {
		for _, reader := range []func(string) io.Reader{
			func(s string) io.Reader { return strings.NewReader(s) },
			func(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }, // of unknown length
		} {
			sent := strings.Repeat("x", size)
			resp, err := client.Post(s.URL+"/a%20b?q=1", "text/plain", reader(sent))
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, sent == string(got))
			require.Equal(t, "202 Accepted", resp.Status)
			require.Equal(t, "/a%20b?q=1", resp.Header.Get("X-Uri"))
			require.Empty(t, resp.Header.Get("X-Agent"), "nothing is added")
			require.Equal(t, "7", resp.Trailer.Get("X-Sum"))
		}
	}
	open, idle := tr.Connections()
	require.EqualValues(t, 1, open)
	require.EqualValues(t, 1, idle)
}

func TestRoundTripEndsWithItsContext(t *testing.T) {
	s := listen(t, func(p *peer) {
		r, _ := p.request()
		if r != nil && r.URL.Path == "/body" {
			_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
		}
		p.gone()
	})
	tr := testTransport(t)
	ctx, cancel := context.WithCancel(context.Background())
	context.AfterFunc(ctx, func() {})
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.Dial+"/head", nil)
	require.NoError(t, err)
	go func() {
		for s.accepted.Load() == 0 {
		}
		cancel()
	}()
	_, err = tr.RoundTrip(req)
	require.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(context.Background())
	req, err = http.NewRequestWithContext(ctx, "GET", "http://"+s.Dial+"/body", nil)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadFull(resp.Body, make([]byte, 2))
	require.NoError(t, err)
	cancel()
	_, err = resp.Body.Read(make([]byte, 1))
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, resp.Body.Close())
}

// Close may come from another goroutine while Read waits.
func TestClosingABodyEndsItsRead(t *testing.T) {
	s := listen(t, func(p *peer) {
		p.request()
		_, _ = io.WriteString(p, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
		p.gone()
	})
	tr := testTransport(t)
	req, err := http.NewRequest("GET", "http://"+s.Dial, nil)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	_, err = io.ReadFull(resp.Body, make([]byte, 2))
	require.NoError(t, err)
	read := make(chan error)
	go func() {
		_, err := resp.Body.Read(make([]byte, 1))
		read <- err
	}()
	require.NoError(t, resp.Body.Close())
	require.Error(t, <-read)
	_, err = resp.Body.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestRoundTripTellsOfInterimHeads(t *testing.T) {
	s := listen(t, answers("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"+okAnswer))
	tr := testTransport(t)
	var link string
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { link = h.Get("Link"); return nil },
	})
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.Dial, nil)
	require.NoError(t, err)
	resp, err := tr.RoundTrip(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "</a>", link)
}

func TestRoundTripRefusesWhatHasNoHost(t *testing.T) {
	req, err := http.NewRequest("GET", "/x", nil)
	require.NoError(t, err)
	_, err = testTransport(t).RoundTrip(req)
	require.Error(t, err)
}

// https and HTTP/2 go another way, for round trips and for calls.
func TestWhatIsNotPlainHTTPGoesThroughTheStandardTransport(t *testing.T) {
	s := httptest.NewUnstartedServer(mirror)
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	plain := httptest.NewUnstartedServer(mirror)
	plain.Config.Protocols = new(http.Protocols)
	plain.Config.Protocols.SetHTTP1(true)
	plain.Config.Protocols.SetUnencryptedHTTP2(true)
	plain.Start()
	defer plain.Close()
	tests := []struct {
		name, url string
		http2     bool
		proto     string
	}{
		{"https by HTTP/1.1", s.URL, false, "HTTP/1.1"},
		{"https by HTTP/2", s.URL, true, "HTTP/2.0"},
		{"http by HTTP/2", plain.URL, true, "HTTP/2.0"},
		{"http by HTTP/1.1", plain.URL, false, "HTTP/1.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pool := DefaultPool
			pool.HTTP2 = tt.http2
			tr := NewTransport(Options{Pool: pool, TLS: trusting(s)})
			defer tr.CloseIdleConnections()
			resp, err := (&http.Client{Transport: tr}).Post(tt.url, "text/plain", strings.NewReader("body"))
			require.NoError(t, err)
			got, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, "body", string(got))
			require.Equal(t, tt.proto, resp.Header.Get("X-Proto"))

			c := callTo(t, tt.url, "body")
			c.Pool = pool
			a, err := tr.send(c)
			require.NoError(t, err)
			body, err := a.read()
			require.NoError(t, err)
			require.Equal(t, "body", body)
			require.Equal(t, tt.proto, fieldValue(a.Fields, "X-Proto"))
			require.Empty(t, fieldValue(a.Fields, "X-Agent"))
			a.close()
		})
	}
}

// trusting trusts a test server.
func trusting(s *httptest.Server) workers.TLS {
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return func() *tls.Config { return &tls.Config{RootCAs: roots} }
}
