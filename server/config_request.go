package server

import (
	"math"
	"net/url"
	"time"
)

// RequestConfig says how requests are read, relayed and limited in time.
type RequestConfig struct {
	RequestTimeout          Seconds  `name:"request-timeout-secs" default:"1800" help:"Limit in seconds (at least 1) of one attempt at a worker, a streamed answer included."`
	UpstreamIdleTimeout     Seconds  `name:"upstream-pool-idle-timeout-secs" default:"3" help:"Seconds after which an unused connection to a worker is closed; keep it below the keep-alive time of the engine, which is often 5. 0: kept open."`
	ShutdownGracePeriod     Seconds  `name:"shutdown-grace-period-secs" default:"180" help:"Seconds that requests in flight get to end at shutdown. 0: stop at once."`
	MaxPayloadSize          int64    `name:"max-payload-size" default:"536870912" help:"Largest request body in bytes (at least 1); also the most that is kept of a worker's answer."`
	MaxBufferedRequestBytes int64    `name:"max-buffered-request-bytes" default:"1048576" help:"Bodies up to this many bytes are kept so that the request can be retried; longer ones are streamed where nothing has to read them. 0: never kept for retries alone."`
	BodyStallTimeout        Seconds  `name:"stream-body-stall-timeout-secs" default:"300" help:"A client that sends nothing of its body for this many seconds is answered 408. 0: no limit."`
	RequestIDHeaders        []string `name:"request-id-headers" type:"headers" default:"x-request-id x-correlation-id x-trace-id request-id" placeholder:"NAME ..." help:"Request headers that may carry the request's id; the first one present decides."`
	CORSAllowedOrigins      []string `name:"cors-allowed-origins" type:"multi" placeholder:"ORIGIN ..." help:"Origins that browsers may call from, such as https://app.example.com; * is any. Unset: no CORS headers at all."`
	SSEKeepalive            Seconds  `name:"sse-keepalive-secs" default:"15" help:"A comment is sent into an event stream after this many seconds of silence of the worker. 0: none."`
	HeaderReadTimeout       Seconds  `name:"header-read-timeout-secs" default:"30" help:"Seconds that a client gets to send the head of a request. 0: no limit."`
	IdleConnectionTimeout   Seconds  `name:"idle-connection-timeout-secs" default:"90" help:"Seconds after which a client's unused connection is closed. 0: never."`
}

func defaultRequest() RequestConfig {
	return RequestConfig{
		RequestTimeout:          1800,
		UpstreamIdleTimeout:     3,
		ShutdownGracePeriod:     180,
		MaxPayloadSize:          512 << 20,
		MaxBufferedRequestBytes: 1 << 20,
		BodyStallTimeout:        300,
		RequestIDHeaders:        []string{"x-request-id", "x-correlation-id", "x-trace-id", "request-id"},
		SSEKeepalive:            15,
		HeaderReadTimeout:       30,
		IdleConnectionTimeout:   90,
	}
}

// SettleWindow is the first part of the grace period, in which the gateway is not ready any more but still accepts requests,
// so that load balancers have time to notice: half of the period, at most 5 s.
func (c *RequestConfig) SettleWindow() time.Duration {
	return min(c.ShutdownGracePeriod.Duration()/2, 5*time.Second)
}

func (c *RequestConfig) check(found *violations) {
	found.seconds("--request-timeout-secs", c.RequestTimeout, 1)
	found.seconds("--upstream-pool-idle-timeout-secs", c.UpstreamIdleTimeout, 0)
	found.seconds("--shutdown-grace-period-secs", c.ShutdownGracePeriod, 0)
	found.whole("--max-payload-size", c.MaxPayloadSize, 1, math.MaxInt64)
	found.whole("--max-buffered-request-bytes", c.MaxBufferedRequestBytes, 0, math.MaxInt64)
	found.seconds("--stream-body-stall-timeout-secs", c.BodyStallTimeout, 0)
	found.headers("--request-id-headers", c.RequestIDHeaders)
	for _, origin := range c.CORSAllowedOrigins {
		if !validOrigin(origin) {
			found.add("--cors-allowed-origins", origin, "must be *, or scheme://host with an optional port and nothing after it")
		}
	}
	found.seconds("--sse-keepalive-secs", c.SSEKeepalive, 0)
	found.seconds("--header-read-timeout-secs", c.HeaderReadTimeout, 0)
	found.seconds("--idle-connection-timeout-secs", c.IdleConnectionTimeout, 0)
}

// validOrigin refuses what no browser sends: an origin with a path, a slash at the end included, would never match.
func validOrigin(origin string) bool {
	if origin == "*" || origin == "null" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Scheme+"://"+u.Host == origin
}
