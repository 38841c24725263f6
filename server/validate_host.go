package server

import (
	"net/netip"
	"strings"
)

// validHost accepts an IP address, with or without brackets, and a host name: labels of letters, digits, "-" and "_".
func validHost(host string) bool {
	if _, err := netip.ParseAddr(unbracket(host)); err == nil {
		return true
	}
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(host, "."), ".") {
		if label == "" || len(label) > 63 || strings.Trim(strings.ToLower(label), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// listener is a host and port that the gateway is going to bind, and the flag that says so.
type listener struct {
	flag, host string
	port       int
}

// checkCollisions finds two listeners that could not both be bound. Port 0 is a free one, so it is never taken.
func (c *Config) checkCollisions(found *violations) {
	listeners := []listener{{"--port", c.Host, c.Port}}
	if c.HealthCheckPort != nil {
		listeners = append(listeners, listener{"--health-check-port", c.Host, *c.HealthCheckPort})
	}
	listeners = append(listeners, listener{"--prometheus-port", c.PrometheusHost, c.PrometheusPort})
	for i, l := range listeners {
		for _, earlier := range listeners[:i] {
			if l.port == earlier.port && l.port != 0 && hostsOverlap(l.host, earlier.host) {
				found.add(l.flag, l.port, "is the port of %s too", earlier.flag)
				break
			}
		}
	}
}

// hostsOverlap reports whether one port cannot be bound on both hosts. Names are not resolved (validation contacts nothing):
// two different names are taken for different addresses, so what it misses is found when the second one is bound.
func hostsOverlap(a, b string) bool {
	a, b = strings.ToLower(unbracket(a)), strings.ToLower(unbracket(b))
	ipA, errA := netip.ParseAddr(a)
	ipB, errB := netip.ParseAddr(b)
	switch {
	case errA == nil && errB == nil:
		return addressesOverlap(ipA.Unmap(), ipB.Unmap())
	case errA != nil && errB != nil:
		return a == b
	case errA == nil:
		return ipA.IsUnspecified() || (ipA.IsLoopback() && b == "localhost")
	default:
		return ipB.IsUnspecified() || (ipB.IsLoopback() && a == "localhost")
	}
}

// addressesOverlap knows that "::" takes the IPv4 addresses as well, and that "0.0.0.0" does not take the others.
func addressesOverlap(a, b netip.Addr) bool {
	if a == b || a == netip.IPv6Unspecified() || b == netip.IPv6Unspecified() {
		return true
	}
	return a.Is4() == b.Is4() && (a.IsUnspecified() || b.IsUnspecified())
}
