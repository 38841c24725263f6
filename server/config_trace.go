package server

import (
	"net/url"
	"strconv"
	"strings"
)

// TraceConfig says whether requests are traced, and where the traces go.
type TraceConfig struct {
	EnableTrace        bool     `name:"enable-trace" help:"Trace requests, and send the spans to an OTLP collector."`
	OTLPTracesEndpoint string   `name:"otlp-traces-endpoint" placeholder:"HOST:PORT" help:"The collector: HOST:PORT without encryption, or a URL with http:// or https://. Unset: what the OTEL_EXPORTER_OTLP_ variables say, else localhost:4317."`
	TraceSampleRatio   *float64 `name:"trace-sample-ratio" placeholder:"RATIO" help:"Share of the requests without a trace context that are traced, 0 to 1; one with a context does what that says. Unset: what OTEL_TRACES_SAMPLER says, else 1."`
}

func (c *TraceConfig) check(found *violations) {
	if !c.EnableTrace {
		return
	}
	if reason := wrongEndpoint(c.OTLPTracesEndpoint); reason != "" {
		found.add("--otlp-traces-endpoint", c.OTLPTracesEndpoint, reason)
	}
	if c.TraceSampleRatio != nil {
		found.fraction("--trace-sample-ratio", *c.TraceSampleRatio, 0, 1)
	}
}

// wrongEndpoint says what is wrong with a collector's address; "" if nothing is.
func wrongEndpoint(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	if scheme, rest, found := strings.Cut(endpoint, "://"); found {
		u, err := url.Parse(endpoint)
		if err != nil || scheme != "http" && scheme != "https" {
			return "must be HOST:PORT or a URL with http:// or https://"
		}
		if u.Port() == "" && u.Hostname() != "" {
			return ""
		}
		endpoint, _, _ = strings.Cut(rest, "/")
	}
	at := strings.LastIndexByte(endpoint, ':')
	if at <= 0 || strings.HasSuffix(endpoint, "]") {
		return "must have a host and a port"
	}
	if port, err := strconv.ParseUint(endpoint[at+1:], 10, 16); err != nil || port == 0 {
		return "must have a port between 1 and 65535"
	}
	return ""
}
