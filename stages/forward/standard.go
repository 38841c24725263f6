package forward

import (
	"net"
	"net/http"
	"time"
)

// standard is the http.Transport that serves workers of a pool over TLS, HTTP/2 or a proxy. It hands bodies on as they are and
// looks at no environment variable.
func (t *Transport) standard(p Pool) *http.Transport {
	dialer := &net.Dialer{Timeout: p.DialTimeout, KeepAlive: tcpKeepAlive}
	rt := &http.Transport{
		Proxy:                  t.options.Proxy,
		DialContext:            dialer.DialContext,
		DialTLSContext:         t.options.TLS.Dial(dialer, "http/1.1"),
		TLSHandshakeTimeout:    p.DialTimeout,
		DisableCompression:     true,
		DisableKeepAlives:      p.MaxIdle == 0,
		MaxIdleConnsPerHost:    p.MaxIdle,
		IdleConnTimeout:        p.IdleTimeout,
		MaxResponseHeaderBytes: maxHead,
		Protocols:              new(http.Protocols),
	}
	if t.options.Proxy != nil && t.options.TLS != nil { // through a proxy the transport secures the connection by itself
		rt.TLSClientConfig = t.options.TLS().Clone()
	}
	rt.Protocols.SetHTTP1(!p.HTTP2)
	if p.HTTP2 {
		rt.DialTLSContext = t.options.TLS.Dial(dialer, "h2")
		rt.Protocols.SetHTTP2(true)
		rt.Protocols.SetUnencryptedHTTP2(true)
		// A connection through which nothing has come for 30 s is asked whether it lives, and has 20 s to say so.
		rt.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 20 * time.Second}
	}
	return rt
}
