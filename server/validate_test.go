package server_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// cli.md, sections 5 and 6.1; policies.md, sections 19 and 20; cache-aware.md, section 4
func TestValuesOutsideTheirRangeAreRefused(t *testing.T) {
	const hour = server.Seconds(3600)
	port := func(n int) *int { return &n }
	tests := []struct {
		name   string
		change func(c *server.Config)
		want   string // the only violation; empty if the value is fine
	}{
		{"the defaults are valid", func(*server.Config) {}, ""},
		{"port 0 is not a port", func(c *server.Config) { c.Port = 0 }, "invalid --port: '0': must be between 1 and 65535"},
		{"port 65535 is the last", func(c *server.Config) { c.Port = 65535 }, ""},
		{"port 65536 is none", func(c *server.Config) { c.Port = 65536 }, "invalid --port: '65536': must be between 1 and 65535"},
		{"a probe port of 0 is not unset", func(c *server.Config) { c.HealthCheckPort = port(0) }, "invalid --health-check-port: '0': must be between 1 and 65535"},
		{"metrics may take any free port", func(c *server.Config) { c.PrometheusPort = 0 }, ""},
		{"two free ports are no collision", func(c *server.Config) { c.Port, c.PrometheusPort = 0, 0 }, "invalid --port: '0': must be between 1 and 65535"},
		{"a negative metrics port is refused", func(c *server.Config) { c.PrometheusPort = -1 }, "invalid --prometheus-port: '-1': must be between 0 and 65535"},
		{"an IPv6 host needs no brackets", func(c *server.Config) { c.Host = "::" }, ""},
		{"an IPv6 host may have brackets", func(c *server.Config) { c.Host = "[::1]" }, ""},
		{"a host may be a name", func(c *server.Config) { c.Host = "localhost" }, ""},
		{"a host is not empty", func(c *server.Config) { c.Host = "" }, "invalid --host: '': must be an IP address or a host name"},
		{"a host has no port", func(c *server.Config) { c.Host = "a:80" }, "invalid --host: 'a:80': must be an IP address or a host name"},
		{"a metrics host that is garbage does not become 0.0.0.0", func(c *server.Config) { c.PrometheusHost = "metrics" }, "invalid --prometheus-host: 'metrics': must be an IP address"},
		{"start-up ends some time", func(c *server.Config) { c.StartupTimeout = 0 }, "invalid --worker-startup-timeout-secs: '0': must be at least 1"},
		{"start-up may be probed at once", func(c *server.Config) { c.StartupDelay = 0 }, ""},
		{"no time is negative", func(c *server.Config) { c.StartupDelay = -1 }, "invalid --worker-startup-delay: '-1': must be at least 0"},
		{"start-up probes are at least a second apart", func(c *server.Config) { c.StartupCheckInterval = 0 }, "invalid --worker-startup-check-interval: '0': must be at least 1"},
		{"a request gets some time", func(c *server.Config) { c.RequestTimeout = 0 }, "invalid --request-timeout-secs: '0': must be at least 1"},
		{"a time that would overflow is refused", func(c *server.Config) { c.RequestTimeout = math.MaxInt64 }, "invalid --request-timeout-secs: '9223372036854775807': must be between 1 and 4294967295"},
		{"idle connections may be kept", func(c *server.Config) { c.UpstreamIdleTimeout = 0 }, ""},
		{"shutdown may be at once", func(c *server.Config) { c.ShutdownGracePeriod = 0 }, ""},
		{"shutdown does not take less than no time", func(c *server.Config) { c.ShutdownGracePeriod = -1 }, "invalid --shutdown-grace-period-secs: '-1': must be at least 0"},
		{"a body has at least one byte", func(c *server.Config) { c.MaxPayloadSize = 0 }, "invalid --max-payload-size: '0': must be at least 1"},
		{"nothing need be buffered", func(c *server.Config) { c.MaxBufferedRequestBytes = 0 }, ""},
		{"less than nothing cannot be buffered", func(c *server.Config) { c.MaxBufferedRequestBytes = -1 }, "invalid --max-buffered-request-bytes: '-1': must be at least 0"},
		{"stalls may be allowed", func(c *server.Config) { c.BodyStallTimeout = 0 }, ""},
		{"keep-alive frames may be turned off", func(c *server.Config) { c.SSEKeepalive = 0 }, ""},
		{"client limits may be turned off", func(c *server.Config) { c.HeaderReadTimeout, c.IdleConnectionTimeout = 0, 0 }, ""},
		{"a header name has no blanks", func(c *server.Config) { c.RoutingKeyHeaders = []string{"has space"} }, "invalid --routing-key-headers: 'has space': must be the name of an HTTP header"},
		{"a header name is not empty", func(c *server.Config) { c.RequestIDHeaders = []string{""} }, "invalid --request-id-headers: '': must be the name of an HTTP header"},
		{"no routing key header is fine", func(c *server.Config) { c.RoutingKeyHeaders = nil }, ""},
		{"any origin may be allowed", func(c *server.Config) { c.CORSAllowedOrigins = []string{"*", "https://a.example:8443"} }, ""},
		{"an origin without scheme never matches", func(c *server.Config) { c.CORSAllowedOrigins = []string{"a.example"} }, "invalid --cors-allowed-origins: 'a.example': must be *, or scheme://host with an optional port and nothing after it"},
		{"an origin with a slash at the end never matches", func(c *server.Config) { c.CORSAllowedOrigins = []string{"http://a/"} }, "invalid --cors-allowed-origins: 'http://a/': must be *, or scheme://host with an optional port and nothing after it"},
		{"a prompt may have to match in full", func(c *server.Config) { c.CacheThreshold = 1 }, ""},
		{"a share is not above one", func(c *server.Config) { c.CacheThreshold = 1.5 }, "invalid --cache-threshold: '1.5': must be between 0.0 and 1.0"},
		{"a share is a number", func(c *server.Config) { c.CacheThreshold = math.NaN() }, "invalid --cache-threshold: 'NaN': must be a finite number"},
		{"any worker may be too busy", func(c *server.Config) { c.BalanceAbs, c.BalanceRel = 0, 1 }, ""},
		{"nobody is too busy below the mean", func(c *server.Config) { c.BalanceRel = 0.9 }, "invalid --balance-rel-threshold: '0.9': must be at least 1.0"},
		{"too busy is a number", func(c *server.Config) { c.BalanceRel = math.NaN() }, "invalid --balance-rel-threshold: 'NaN': must be a finite number"},
		{"too busy is not below the mean", func(c *server.Config) { c.BalanceAbs = -1 }, "invalid --balance-abs-threshold: '-1': must be at least 0"},
		{"the spread of cache usage may be off", func(c *server.Config) { c.BalanceTokenUsage = 7 }, ""},
		{"the spread of cache usage is above zero", func(c *server.Config) { c.BalanceTokenUsage = 0 }, "invalid --balance-token-usage-threshold: '0': must be above 0"},
		{"cache usage is above zero", func(c *server.Config) { c.OverloadTokenUsage = 0 }, "invalid --overload-token-usage-threshold: '0': must be above 0"},
		{"cache usage is a number", func(c *server.Config) { c.OverloadTokenUsage = math.NaN() }, "invalid --overload-token-usage-threshold: 'NaN': must be a finite number"},
		{"a backlog does not add worth", func(c *server.Config) { c.OverlapDecay = -0.1 }, "invalid --overlap-decay: '-0.1': must be at least 0.0"},
		{"decay is finite", func(c *server.Config) { c.OverlapDecay = math.Inf(1) }, "invalid --overlap-decay: '+Inf': must be a finite number"},
		{"a temperature is not negative", func(c *server.Config) { c.SelectionTemperature = -1 }, "invalid --selection-temperature: '-1': must be at least 0.0"},
		{"a temperature is a number", func(c *server.Config) { c.SelectionTemperature = math.NaN() }, "invalid --selection-temperature: 'NaN': must be a finite number"},
		{"without rounds manual keeps its keys", func(c *server.Config) { c.Policy, c.EvictionInterval = "manual", 0 }, ""},
		{"without rounds cache_aware would not keep its index small", func(c *server.Config) { c.Policy, c.EvictionInterval = "cache_aware", 0 }, "invalid --eviction-interval: '0': must be at least 1 with --policy cache_aware"},
		{"a tree holds something", func(c *server.Config) { c.MaxTreeSize = 0 }, "invalid --max-tree-size: '0': must be at least 1"},
		{"an index has some memory", func(c *server.Config) { c.IndexMemory = 0 }, "invalid --index-memory-bytes: '0': must be at least 1"},
		{"a page has a token", func(c *server.Config) { c.BlockSize = 0 }, "invalid --block-size: '0': must be at least 1"},
		{"boundaries ascend", func(c *server.Config) { c.CacheBoundaries = []int{2048, 8192} }, ""},
		{"boundaries do not descend", func(c *server.Config) { c.CacheBoundaries = []int{8192, 2048} }, "invalid --cache-boundaries: '2048': must be above the boundary before it (8192)"},
		{"boundaries differ", func(c *server.Config) { c.CacheBoundaries = []int{2048, 2048} }, "invalid --cache-boundaries: '2048': must be above the boundary before it (2048)"},
		{"a boundary is above zero, whatever the policy", func(c *server.Config) { c.CacheBoundaries = []int{0, 16} }, "invalid --cache-boundaries: '0': must be at least 1"},
		{"some of a prefix is hashed", func(c *server.Config) { c.PrefixTokens = 0 }, "invalid --prefix-token-count: '0': must be at least 1"},
		{"a worker at the mean is not passed over", func(c *server.Config) { c.PrefixLoadFactor = 0.99 }, "invalid --prefix-hash-load-factor: '0.99': must be at least 1.0"},
		{"a load factor is a number", func(c *server.Config) { c.PrefixLoadFactor = math.NaN() }, "invalid --prefix-hash-load-factor: 'NaN': must be a finite number"},
		{"the load check may be relative alone", func(c *server.Config) { c.PrefixBalanceAbs = 0 }, ""},
		{"the load check is not below the mean", func(c *server.Config) { c.PrefixBalanceAbs = -1 }, "invalid --prefix-hash-balance-abs-threshold: '-1': must be at least 0"},
		{"a full cache may count as nothing", func(c *server.Config) { c.KVPressureWeight = 0 }, ""},
		{"a full cache does not make a worker faster", func(c *server.Config) { c.KVPressureWeight = -0.1 }, "invalid --least-load-kv-pressure-weight: '-0.1': must be at least 0.0"},
		{"a weight is a number", func(c *server.Config) { c.KVPressureWeight = math.NaN() }, "invalid --least-load-kv-pressure-weight: 'NaN': must be a finite number"},
		{"a worker does something", func(c *server.Config) { c.DefaultThroughput = 0 }, "invalid --least-load-default-throughput: '0': must be above 0"},
		{"a worker does not do everything", func(c *server.Config) { c.DefaultThroughput = math.Inf(1) }, "invalid --least-load-default-throughput: '+Inf': must be a finite number"},
		{"a request has a token", func(c *server.Config) { c.MeanPrefillTokens = 0 }, "invalid --least-load-mean-prefill-tokens: '0': must be at least 1"},
		{"waiting has no limit, or one", func(c *server.Config) { c.MaxWaiting = -1 }, "invalid --least-load-max-waiting-requests: '-1': must be at least 0"},
		{"keys may be kept for ever", func(c *server.Config) { c.MaxIdle = 0 }, ""},
		{"a key is idle for some time", func(c *server.Config) { c.MaxIdle = -1 }, "invalid --max-idle-secs: '-1': must be at least 0"},
		{"keys are assigned in one of four ways", func(c *server.Config) { c.AssignmentMode = new("best") }, "invalid --assignment-mode: 'best': must be random, min_load, min_group or delegate"},
		{"there is at least one attempt", func(c *server.Config) { c.RetryMaxRetries = 0 }, "invalid --retry-max-retries: '0': must be at least 1"},
		{"values of retries that are off are checked", func(c *server.Config) { c.DisableRetries, c.RetryMaxRetries = true, 0 }, "invalid --retry-max-retries: '0': must be at least 1"},
		{"the first backoff is some time", func(c *server.Config) { c.RetryInitialBackoff = 0 }, "invalid --retry-initial-backoff-ms: '0': must be at least 1"},
		{"the longest backoff may be the first", func(c *server.Config) { c.RetryMaxBackoff = 50 }, ""},
		{"the longest backoff is not below the first", func(c *server.Config) { c.RetryMaxBackoff = 49 }, "invalid --retry-max-backoff-ms: '49': must not be below --retry-initial-backoff-ms (50)"},
		{"backoff may stay the same", func(c *server.Config) { c.RetryBackoffMultiplier = 1 }, ""},
		{"backoff does not shrink", func(c *server.Config) { c.RetryBackoffMultiplier = 0.9 }, "invalid --retry-backoff-multiplier: '0.9': must be at least 1.0"},
		{"backoff grows by a number", func(c *server.Config) { c.RetryBackoffMultiplier = math.NaN() }, "invalid --retry-backoff-multiplier: 'NaN': must be a finite number"},
		{"backoff does not grow without bound", func(c *server.Config) { c.RetryBackoffMultiplier = math.Inf(1) }, "invalid --retry-backoff-multiplier: '+Inf': must be a finite number"},
		{"jitter may be the whole wait", func(c *server.Config) { c.RetryJitterFactor = 1 }, ""},
		{"jitter is not more than the wait", func(c *server.Config) { c.RetryJitterFactor = 1.1 }, "invalid --retry-jitter-factor: '1.1': must be between 0.0 and 1.0"},
		{"jitter is a number", func(c *server.Config) { c.RetryJitterFactor = math.NaN() }, "invalid --retry-jitter-factor: 'NaN': must be a finite number"},
		{"a breaker needs a failure to open", func(c *server.Config) { c.CBFailureThreshold = 0 }, "invalid --cb-failure-threshold: '0': must be at least 1"},
		{"a breaker needs a success to close", func(c *server.Config) { c.CBSuccessThreshold = 0 }, "invalid --cb-success-threshold: '0': must be at least 1"},
		{"a breaker stays open for some time", func(c *server.Config) { c.CBTimeout = 0 }, "invalid --cb-timeout-duration-secs: '0': must be at least 1"},
		{"the window is checked although it is idle", func(c *server.Config) { c.CBWindow = 0 }, "invalid --cb-window-duration-secs: '0': must be at least 1"},
		{"a worker fails some probe before it is unhealthy", func(c *server.Config) { c.HealthFailureThreshold = 0 }, "invalid --health-failure-threshold: '0': must be at least 1"},
		{"a worker passes some probe before it is healthy", func(c *server.Config) { c.HealthSuccessThreshold = 0 }, "invalid --health-success-threshold: '0': must be at least 1"},
		{"a probe gets some time", func(c *server.Config) { c.HealthCheckTimeout = 0 }, "invalid --health-check-timeout-secs: '0': must be at least 1"},
		{"probes are some time apart", func(c *server.Config) { c.HealthCheckInterval = 0 }, "invalid --health-check-interval-secs: '0': must be at least 1"},
		{"a probe's path may have a query", func(c *server.Config) { c.HealthCheckEndpoint = "/ping?deep=1" }, ""},
		{"a probe's path begins with a slash", func(c *server.Config) { c.HealthCheckEndpoint = "health" }, "invalid --health-check-endpoint: 'health': must be a path that begins with /"},
		{"a probe's path cannot end the request line", func(c *server.Config) { c.HealthCheckEndpoint = "/a HTTP/1.1\r\nX:" }, "invalid --health-check-endpoint: '/a HTTP/1.1  X:': must be a path that begins with /"},
		{"a worker may be removed at once", func(c *server.Config) { c.DrainSettle = 0 }, ""},
		{"a drain takes no negative time", func(c *server.Config) { c.DrainSettle = -hour }, "invalid --drain-settle-secs: '-3600': must be at least 0"},
		{"a bucket is above zero", func(c *server.Config) { c.DurationBuckets = []float64{0, 1} }, "invalid --prometheus-duration-buckets: '0': must be above 0"},
		{"buckets ascend", func(c *server.Config) { c.DurationBuckets = []float64{1, 0.5} }, "invalid --prometheus-duration-buckets: '0.5': must be above the bound before it (1)"},
		{"buckets differ", func(c *server.Config) { c.DurationBuckets = []float64{1, 1} }, "invalid --prometheus-duration-buckets: '1': must be above the bound before it (1)"},
		{"a bucket is a number", func(c *server.Config) { c.DurationBuckets = []float64{1, math.NaN()} }, "invalid --prometheus-duration-buckets: 'NaN': must be a finite number"},
		{"a collector has a port", collector("collector"), "invalid --otlp-traces-endpoint: 'collector': must have a host and a port"},
		{"a collector has a host", collector(":4317"), "invalid --otlp-traces-endpoint: ':4317': must have a host and a port"},
		{"a collector's port is not 0", collector("c:0"), "invalid --otlp-traces-endpoint: 'c:0': must have a port between 1 and 65535"},
		{"a collector's port is a port", collector("c:70000"), "invalid --otlp-traces-endpoint: 'c:70000': must have a port between 1 and 65535"},
		{"a collector may be a name", collector("otel-collector:4317"), ""},
		{"a collector may have an IPv6 address", collector("[::1]:4317"), ""},
		{"an IPv6 address alone is no collector", collector("[::1]"), "invalid --otlp-traces-endpoint: '[::1]': must have a host and a port"},
		{"a collector may be reached by TLS", collector("https://collector.example:4317"), ""},
		{"a collector's usual port may be left out of a URL", collector("https://collector.example"), ""},
		{"a collector speaks HTTP", collector("ftp://c:1"), "invalid --otlp-traces-endpoint: 'ftp://c:1': must be HOST:PORT or a URL with http:// or https://"},
		{"a collector that is not used is not checked", func(c *server.Config) { c.OTLPTracesEndpoint = "nonsense" }, ""},
		{"a share of the traces is at most all", func(c *server.Config) { c.EnableTrace, c.TraceSampleRatio = true, new(1.5) }, "invalid --trace-sample-ratio: '1.5': must be between 0.0 and 1.0"},
		{"there is at least one thread", func(c *server.Config) { c.WorkerThreads = port(0) }, "invalid --runtime-worker-threads: '0': must be between 1 and 65536"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			tt.change(cfg)
			if tt.want == "" {
				require.Empty(t, cfg.Validate())
				return
			}
			require.Equal(t, []string{tt.want}, sentences(cfg.Validate()))
		})
	}
}

func collector(endpoint string) func(*server.Config) {
	return func(c *server.Config) { c.EnableTrace, c.OTLPTracesEndpoint = true, endpoint }
}

// cli.md, section 6: report all violations at once
func TestAllViolationsAreReportedAtOnce(t *testing.T) {
	cfg := server.Default()
	cfg.Port, cfg.WorkerURLs, cfg.CBTimeout = 0, []string{"a", "http://b", "c"}, -1
	flags := []string{}
	for _, v := range cfg.Validate() {
		flags = append(flags, v.Flag)
	}
	require.Equal(t, []string{"--port", "--worker-urls", "--worker-urls", "--cb-timeout-duration-secs"}, flags)
}

// cli.md, section 6.2
func TestWorkerURLs(t *testing.T) {
	const scheme = "URL must start with a lowercase http://, https://, grpc://, grpcs://, or ipc:// scheme"
	const query = "URL must not have a query or a fragment"
	const host, port = "URL must have a valid host", "Invalid URL format: port must be from 1 to 65535"
	tests := []struct{ url, reason string }{
		{"http://10.0.0.5:8000", ""},
		{"http://10.0.0.5:8000/", ""},
		{"http://10.0.0.5:8000/base", ""},
		{"https://w.example.com", ""},
		{"grpc://h:1", ""},
		{"grpcs://h:443", ""},
		{"http://[::1]:8000", ""},
		{"http://[fd00::5]", ""},
		{"http://sglang_worker.default.svc.cluster.local.:80", ""},
		{"ipc:///run/engine", ""},
		{"", "URL cannot be empty"},
		{"HTTP://h", scheme},
		{"h:8000", scheme},
		{"10.0.0.5:8000", scheme},
		{"ftp://h", scheme},
		{"http:/h", scheme},
		{" http://h", scheme},
		{"ipc://", "ipc:// worker URL must include a socket path"},
		{"http://", host},
		{"http://:8000", host},
		{"http:///path", host},
		{"http://a,http://b", host},
		{"http://h:0", port},
		{"http://h:65536", port},
		{"http://h:x", `Invalid URL format: invalid port ":x" after host`},
		{"http://[::1", "Invalid URL format: missing ']' in host"},
		{"http://a b", `Invalid URL format: invalid character " " in host name`},
		{"http://h?x=1", query},
		{"http://h?", query},
		{"http://h#", query},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			cfg := server.Default()
			cfg.WorkerURLs = []string{tt.url}
			if tt.reason == "" {
				require.Empty(t, cfg.Validate())
				return
			}
			want := []server.Violation{{Flag: "--worker-urls", Value: tt.url, Reason: tt.reason}}
			require.Equal(t, want, cfg.Validate())
		})
	}
}

// cli.md, section 5.12: secrets never appear in error text
func TestCredentialsInAWorkerURLAreNotRepeated(t *testing.T) {
	for _, url := range []string{"http://user:pa@ss@h:1/x", "user:pa@ss@h:1/x", "http://user:pa@ss@h:x/x"} {
		cfg := server.Default()
		cfg.WorkerURLs = []string{url}
		found := cfg.Validate()
		require.Len(t, found, 1)
		require.NotContains(t, found[0].String(), "ss")
		require.Contains(t, found[0].Value, "***@h:")
	}
}

// cli.md, section 6.5
func TestListenersDoNotCollide(t *testing.T) {
	const main, probe = "invalid --prometheus-port: '8080': is the port of --port too", "invalid --health-check-port: '8080': is the port of --port too"
	tests := []struct {
		name, host, metricsHost string
		probe, metrics          int
		want                    []string
	}{
		{"different ports are fine", "0.0.0.0", "0.0.0.0", 8081, 8082, nil},
		{"metrics and main on all addresses", "0.0.0.0", "0.0.0.0", 8081, 8080, []string{main}},
		{"metrics on one address and main on all", "0.0.0.0", "127.0.0.1", 8081, 8080, []string{main}},
		{"metrics on all addresses and main on one", "10.0.0.1", "0.0.0.0", 8081, 8080, []string{main}},
		{"metrics and main on two addresses", "10.0.0.1", "127.0.0.1", 8081, 8080, nil},
		{"metrics and main on one address, written in two ways", "[::1]", "::1", 8081, 8080, []string{main}},
		{"all IPv6 addresses take the IPv4 ones too", "::", "127.0.0.1", 8081, 8080, []string{main}},
		{"one IPv4 address is taken by all IPv6 ones", "127.0.0.1", "::", 8081, 8080, []string{main}},
		{"all IPv4 addresses leave the IPv6 ones free", "0.0.0.0", "::1", 8081, 8080, nil},
		{"a name is one of all addresses", "gw.example", "0.0.0.0", 8081, 8080, []string{main}},
		{"localhost is a loopback address", "localhost", "127.0.0.1", 8081, 8080, []string{main}},
		{"localhost is not another address", "localhost", "10.0.0.1", 8081, 8080, nil},
		{"the probe listener has the host of main", "127.0.0.1", "0.0.0.0", 8080, 8081, []string{probe}},
		{"three on one port are two collisions", "0.0.0.0", "0.0.0.0", 8080, 8080, []string{probe, main}},
		{
			"metrics and probes on one port", "127.0.0.1", "127.0.0.1", 8081, 8081,
			[]string{"invalid --prometheus-port: '8081': is the port of --health-check-port too"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			cfg.Host, cfg.Port, cfg.HealthCheckPort = tt.host, 8080, &tt.probe
			cfg.PrometheusHost, cfg.PrometheusPort = tt.metricsHost, tt.metrics
			require.Equal(t, tt.want, sentences(cfg.Validate()))
		})
	}
}

// cli.md, section 6.5
func TestAnAliasStandsForOneModel(t *testing.T) {
	cfg := server.Default()
	cfg.ModelAliases = []server.ModelAlias{{"x", "a"}, {"y", "a"}, {"x", "a"}}
	require.Empty(t, cfg.Validate())
	require.Equal(t, map[string]string{"x": "a", "y": "a"}, cfg.Aliases())

	cfg.ModelAliases = []server.ModelAlias{{"x", "a"}, {"x", "b"}}
	want := []string{"invalid --model-alias: 'x=b': alias 'x' stands for 'a' already and cannot stand for 'b' too"}
	require.Equal(t, want, sentences(cfg.Validate()))
}

// sentences are violations as the user sees them; nil if there are none.
func sentences(found []server.Violation) (lines []string) {
	for _, v := range found {
		lines = append(lines, v.String())
	}
	return lines
}
