package telemetry

import "github.com/prometheus/client_golang/prometheus"

// responseCounters are the series of one counter by status and error code, found without a lock or an allocation.
type responseCounters struct {
	cache cowMap[responseKey, prometheus.Counter]
	codes *labelSet
	make  func(status, code string) prometheus.Counter
}

type responseKey struct {
	status int
	code   string
}

func (r *responseCounters) get(status int, code string) prometheus.Counter {
	if code != "" {
		code = r.codes.label(code)
	}
	if status < 100 || status > 999 {
		status = 0 // one key for all that have the label "other"
	}
	key := responseKey{status, code}
	if c, ok := r.cache.get(key); ok {
		return c
	}
	return r.cache.getOrMake(key, func(k responseKey) (prometheus.Counter, bool) {
		return r.make(statusLabel(k.status), k.code), true
	})
}
