package server

import (
	"net"
	"strconv"
	"strings"
)

// Config is everything that can be set from outside: one field for each flag of the command line, in the groups that the
// help shows. The tags are the flag's name, its default and its help text; they are plain strings here, so that a program
// that builds a gateway of its own needs no command line: it starts from [Default] and changes fields.
//
// A Config is checked with [Config.Validate] before anything is bound or contacted, and not changed after that.
type Config struct {
	WorkerConfig    `group:"Worker Configuration"`
	PolicyConfig    `group:"Routing Policy"`
	CacheConfig     `group:"Cache-Aware Routing"`
	PrefixConfig    `group:"Prefix Hash Routing"`
	WaitConfig      `group:"Least Load Routing"`
	SessionConfig   `group:"Sessions"`
	ExplainConfig   `group:"Explaining Choices"`
	OverloadConfig  `group:"Worker Overload Protection"`
	LoadConfig      `group:"Load Monitoring"`
	RequestConfig   `group:"Request Handling"`
	AdmissionConfig `group:"Admission"`
	AuthConfig      `group:"Authentication"`
	JWTConfig       `group:"Tokens of Operators"`
	RetryConfig     `group:"Retry"`
	BreakerConfig   `group:"Circuit Breaker"`
	HealthConfig    `group:"Health Checks"`
	RecoveryConfig  `group:"Health Checks"`
	JobConfig       `group:"Job Queue"`
	RankConfig      `group:"Worker Configuration"`
	DiscoveryConfig `group:"Service Discovery"`
	LogConfig       `group:"Logging"`
	MetricsConfig   `group:"Metrics"`
	TraceConfig     `group:"Tracing"`
	RecordConfig    `group:"Recording"`
	TLSConfig       `group:"TLS"`
	RuntimeConfig   `group:"Runtime"`
}

// Default returns a configuration with every flag at its default; it is valid, and has no workers.
func Default() *Config {
	return &Config{
		WorkerConfig:    defaultWorker(),
		PolicyConfig:    defaultPolicy(),
		CacheConfig:     defaultCache(),
		PrefixConfig:    defaultPrefix(),
		WaitConfig:      defaultWait(),
		SessionConfig:   defaultSessions(),
		LoadConfig:      defaultLoad(),
		RequestConfig:   defaultRequest(),
		AdmissionConfig: defaultAdmission(),
		AuthConfig:      defaultAuth(),
		JWTConfig:       defaultJWT(),
		RetryConfig:     defaultRetry(),
		BreakerConfig:   defaultBreaker(),
		HealthConfig:    defaultHealth(),
		JobConfig:       defaultJobs(),
		DiscoveryConfig: defaultDiscovery(),
		LogConfig:       LogConfig{LogLevel: "info"},
		MetricsConfig:   defaultMetrics(),
	}
}

// RuntimeConfig is about the process itself.
type RuntimeConfig struct {
	WorkerThreads *int `name:"runtime-worker-threads" placeholder:"N" help:"Operating system threads that run Go code at once (GOMAXPROCS). Unset: the CPU limit of the container, else the number of cores."`
}

func (c *RuntimeConfig) check(found *violations) {
	if c.WorkerThreads != nil {
		found.whole("--runtime-worker-threads", int64(*c.WorkerThreads), 1, 1<<16)
	}
}

// hostPort joins a bind host, with or without the brackets of an IPv6 literal, and a port.
func hostPort(host string, port int) string {
	return net.JoinHostPort(unbracket(host), strconv.Itoa(port))
}

// unbracket takes the brackets from an IPv6 literal: "[::]" and "::" are the same host.
func unbracket(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			return inner
		}
	}
	return host
}
