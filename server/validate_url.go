package server

import (
	"errors"
	"net"
	"strings"

	"github.com/smg-go/smg/workers"
)

// validateWorkerURL checks the form of a worker's URL as the worker API does, and its host: several URLs in one value, with
// commas between them, would be one worker with a strange name.
func validateWorkerURL(raw string) error {
	endpoint, err := workers.ParseEndpoint(raw)
	if refused, ok := errors.AsType[*workers.URLError](err); ok {
		return errors.New(refused.Reason) // without the URL, which may carry credentials
	}
	if err != nil || endpoint.Dial == "" {
		return err
	}
	if host, _, err := net.SplitHostPort(endpoint.Dial); err != nil || !validHost(host) {
		return errors.New("URL must have a valid host")
	}
	return nil
}

// workerIdentity is equal for two spellings of one worker's URL.
func workerIdentity(raw string) string {
	if endpoint, err := workers.ParseEndpoint(raw); err == nil {
		return endpoint.URL
	}
	return raw
}

// withoutCredentials returns a URL that can be shown: what stands between its scheme and an "@" is masked.
func withoutCredentials(raw string) string {
	start := 0
	if i := strings.Index(raw, "://"); i >= 0 {
		start = i + len("://")
	}
	authority, _, _ := strings.Cut(raw[start:], "/")
	at := strings.LastIndex(authority, "@")
	if at < 0 {
		return raw
	}
	return raw[:start] + "***" + raw[start+at:]
}
