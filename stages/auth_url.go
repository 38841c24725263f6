package stages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// CheckIssuerURL tells whether a token issuer may be asked at a URL: https, and not into the network that the gateway is in; for
// development, http to localhost, 127.0.0.1 and ::1 as well. The error says why not, as the end of a sentence.
func CheckIssuerURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return errors.New("must be an absolute URL")
	case u.User != nil:
		return errors.New("must not carry credentials")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("must begin with https://")
	}
	host := plainHost(u.Hostname())
	switch {
	case isThisHost(host):
		return nil
	case u.Scheme != "https":
		return errors.New("must begin with https:// (http:// is for localhost alone)")
	}
	return checkIssuerHost(host)
}

var errInside = errors.New("must not be in a private network")

func checkIssuerHost(host string) error {
	for _, suffix := range []string{".internal", ".local"} {
		if strings.HasSuffix("."+host, suffix) {
			return fmt.Errorf("%w: %s", errInside, host)
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil && isInside(ip) {
		return fmt.Errorf("%w: %s", errInside, host)
	}
	return nil
}

// plainHost is a host as it is compared: in lower case, without the dot of the root.
func plainHost(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// isThisHost tells the names under which an issuer may be on the same machine.
func isThisHost(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// Networks that are not on the internet, beside those that the standard library knows.
var insideNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), // this network, and that of carriers
	netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
}

// nat64 addresses hold an IPv4 one in their last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func isInside(ip netip.Addr) bool {
	ip = ip.WithZone("").Unmap()
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() { // the first also tells loopback, link-local, multicast and unspecified ones
		return true
	}
	for _, n := range insideNetworks {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}

// issuerClient asks issuers: it follows no redirect, uses no proxy, and looks at the address that a name stands for before it
// connects, since a name may stand for any.
func issuerClient() *http.Client {
	return &http.Client{
		Timeout:       keysTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{DialContext: dialIssuer, DisableKeepAlives: true, TLSHandshakeTimeout: keysTimeout},
	}
}

func dialIssuer(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	local := isThisHost(plainHost(host))
	d := net.Dialer{Timeout: 5 * time.Second, Control: func(_, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		if local && !at.Addr().Unmap().IsLoopback() || !local && isInside(at.Addr()) {
			return fmt.Errorf("the address of %s %w", host, errInside)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}
