package workers

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// TLS tells how the next connection to a worker is secured: the certificate to show, and whom to trust. It is asked for each
// connection, so that what it tells may change; the configuration that it returns is not changed by whoever asks. A nil TLS shows
// no certificate and trusts whom the system trusts.
type TLS func() *tls.Config

// Dial makes a [http.Transport.DialTLSContext] that dials with d, whose time-out bounds the handshake too, and offers the given
// protocol by ALPN ("http/1.1" or "h2"). Its error is a [*net.OpError] whose Op is "dial", also if the handshake failed: in either
// case the worker was told nothing.
func (t TLS) Dial(d *net.Dialer, protocol string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if t != nil {
			config = t().Clone()
		}
		config.NextProtos = []string{protocol}
		c, err := (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, network, address)
		if _, told := err.(*net.OpError); err != nil && (!told || err.(*net.OpError).Op != "dial") { //nolint:errorlint // not one that is wrapped
			err = &net.OpError{Op: "dial", Net: network, Err: err}
		}
		if err != nil {
			return nil, err // and no connection that is a nil of some type
		}
		return c, nil
	}
}

// WithTLS secures the questions of registrations to https workers.
func WithTLS(t TLS) EnrolOption { return func(e *Enroller) { e.clients.secure(t) } }

// UseTLS secures the probes of https workers. It is called before Run.
func (h *HealthLoop) UseTLS(t TLS) { h.clients.secure(t) }

// UseTLS secures the polls of https workers. It is called before Run.
func (m *LoadMonitor) UseTLS(t TLS) { m.clients.secure(t) }

// secure is called before the clients are used.
func (c clients) secure(t TLS) {
	d := &net.Dialer{Timeout: 10 * time.Second}
	c.http1.Transport.(*http.Transport).DialTLSContext = t.Dial(d, "http/1.1")
	c.http2.Transport.(*http.Transport).DialTLSContext = t.Dial(d, "h2")
}
