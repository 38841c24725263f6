package workers

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Endpoint is where a worker is reached, taken apart once so that no request has to.
type Endpoint struct {
	URL     string // as registered, without a slash at the end, with the @rank of a data-parallel rank
	Base    string // the URL without @rank: what requests, probes and scrapes use
	Address string // host:port and prefix of the base, or the path of a socket; jobs and removals are keyed by it
	Scheme  string // http, https, grpc, grpcs or ipc
	Host    string // what the Host header says: host, or host:port as it was written
	Dial    string // host:port to connect to
	Prefix  string // path in front of every route, without a slash at the end; often ""
	Mode    Mode
}

var rankSuffix = regexp.MustCompile(`@\d+$`)

// rank is the data-parallel rank that the URL names; ok is false if it names none.
func (e *Endpoint) rank() (rank int, ok bool) {
	suffix, ok := strings.CutPrefix(e.URL, e.Base+"@")
	if !ok {
		return 0, false
	}
	rank, err := strconv.Atoi(suffix)
	return rank, err == nil
}

// URLError says why a worker's URL is refused.
type URLError struct{ URL, Reason string }

func (e *URLError) Error() string {
	return fmt.Sprintf("Invalid value for field 'worker_url': %s - %s", e.URL, e.Reason)
}

var modes = map[string]Mode{"http": HTTP, "https": HTTP, "grpc": GRPC, "grpcs": GRPC, "ipc": ZMQ}

// ParseEndpoint checks a worker's URL and takes it apart. The error is a [*URLError].
func ParseEndpoint(raw string) (Endpoint, error) {
	if raw == "" {
		return Endpoint{}, &URLError{raw, "URL cannot be empty"}
	}
	scheme, rest, found := strings.Cut(raw, "://")
	mode, known := modes[scheme]
	if !found || !known {
		return Endpoint{}, &URLError{raw, "URL must start with a lowercase http://, https://, grpc://, grpcs://, or ipc:// scheme"}
	}
	if scheme == "ipc" {
		if rest == "" {
			return Endpoint{}, &URLError{raw, "ipc:// worker URL must include a socket path"}
		}
		return Endpoint{URL: raw, Base: raw, Address: rest, Scheme: scheme, Mode: mode}, nil
	}
	return parseNetwork(raw, mode)
}

func parseNetwork(raw string, mode Mode) (Endpoint, error) {
	trimmed := strings.TrimRight(raw, "/")
	rank := rankSuffix.FindString(trimmed)
	base := strings.TrimRight(strings.TrimSuffix(trimmed, rank), "/")
	u, err := url.Parse(base)
	if err != nil {
		return Endpoint{}, &URLError{raw, "Invalid URL format: " + reason(err)}
	}
	if err := checkURL(raw, u); err != nil {
		return Endpoint{}, err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "grpc": "80", "grpcs": "443"}[u.Scheme]
	}
	prefix := strings.TrimRight(u.EscapedPath(), "/")
	address := net.JoinHostPort(u.Hostname(), port)
	return Endpoint{
		URL: base + rank, Base: base, Address: address + prefix, Scheme: u.Scheme, Host: strings.TrimSuffix(u.Host, ":"),
		Dial: address, Prefix: prefix, Mode: mode,
	}, nil
}

func checkURL(raw string, u *url.URL) error {
	switch port, err := strconv.ParseUint(u.Port(), 10, 16); {
	case u.Hostname() == "":
		return &URLError{raw, "URL must have a valid host"}
	case u.User != nil:
		return &URLError{u.Redacted(), "URL must not carry credentials; give the worker an api_key"}
	case strings.ContainsAny(raw, "?#"):
		return &URLError{raw, "URL must not have a query or a fragment"}
	case u.Port() != "" && (err != nil || port == 0):
		return &URLError{raw, "Invalid URL format: port must be from 1 to 65535"}
	}
	return nil
}

// reason is what is wrong with a URL, without the URL that url.Parse puts in front.
func reason(err error) string {
	if e, ok := err.(*url.Error); ok { //nolint:errorlint // url.Parse documents this type
		return e.Err.Error()
	}
	return err.Error()
}
