package stages

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// describeRequest says what the request was and how it ended: the conventions for HTTP servers, and what smg adds.
func (t *tracer) describeRequest(s *telemetry.Span, x *pipeline.Exchange, err error) {
	c := x.Client
	s.Text("http.request.method", c.Method())
	s.Text("http.route", t.path)
	s.Text("url.path", c.Path())
	scheme := "http"
	if c.TLS() != nil {
		scheme = "https"
	}
	s.Text("url.scheme", scheme)
	s.Add(t.host.address(c.Header("Host")))
	s.Text("network.protocol.version", strings.TrimPrefix(c.Protocol(), "HTTP/"))
	if peer := c.Peer(); peer != "" {
		s.Text("client.address", peerHost(peer))
	}
	s.Text("user_agent.original", c.Header("User-Agent"))
	s.Text("smg.request_id", x.ID)
	s.Text("smg.tenant", x.Tenant)
	if x.Body.Reason != "" {
		describeBody(s, x)
	}
	if x.Number > 0 {
		s.Number("smg.attempts", int64(x.Number))
		s.Flag("smg.streaming", x.Body.Stream)
	}
	t.describeEnd(s, x, err)
}

// lastHost is the Host header of the last request, taken apart: nearly all clients send the same one.
type lastHost struct{ last atomic.Pointer[hostAddress] }

type hostAddress struct {
	host    string
	address telemetry.Attributes
}

func (l *lastHost) address(host string) *telemetry.Attributes {
	known := l.last.Load()
	if known == nil || known.host != host {
		known = &hostAddress{host: host}
		known.address.Address(host)
		l.last.Store(known)
	}
	return &known.address
}

// peerHost is the address of a peer without its port, which the server has written there: host:port or [host]:port.
func peerHost(peer string) string {
	host := peer[:max(strings.LastIndexByte(peer, ':'), 0)]
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// describeEnd marks as failed what the server is to blame for, a response that broke behind its head included.
func (t *tracer) describeEnd(s *telemetry.Span, x *pipeline.Exchange, err error) {
	status, code := x.Result(err)
	s.Number("http.response.status_code", int64(status))
	s.Text("smg.error_code", code)
	broken := err != nil && x.Status() != 0 && status != pipeline.ErrClientGone.Status
	if status < http.StatusInternalServerError && !broken {
		return
	}
	if code == "" {
		code = strconv.Itoa(status)
	}
	s.Text("error.type", code)
	s.Fail()
}

func describeBody(s *telemetry.Span, x *pipeline.Exchange) {
	size, path := int64(len(x.Body.Bytes)), "buffered"
	if x.Body.Streamed {
		size, path = x.Client.ContentLength(), "streamed"
	}
	s.Number("smg.body.bytes", size)
	s.Text("smg.body.path", path)
	s.Text("smg.body.reason", x.Body.Reason)
}

// describeStage says what a stage has found out.
func describeStage(s *telemetry.Span, stage string, x *pipeline.Exchange) {
	switch stage {
	case "body", "form":
		describeBody(s, x)
	case "available", "breaker", "overload":
		describePool(s, x)
	case "policy":
		if leg := x.Legs.Last(); leg != nil {
			s.Text("smg.worker", leg.Worker.URL())
			describeChoice(s, x, leg)
		}
	}
}

func describePool(s *telemetry.Span, x *pipeline.Exchange) {
	s.Number("smg.workers.total", int64(x.Pool.Len()))
	s.Number("smg.workers.available", int64(x.Candidates.Len()))
	if x.Pool.Len() == x.Candidates.Len() { // nearly always: there is nothing to tell of
		return
	}
	s.Number("smg.workers.unhealthy", int64(x.Pool.NotReady()))
	s.Number("smg.workers.circuit_open", int64(x.Pool.Tripped()))
	s.Number("smg.workers.overloaded", int64(x.Pool.Overloaded()))
}

func describeChoice(s *telemetry.Span, x *pipeline.Exchange, leg *pipeline.Leg) {
	s.Text("smg.policy", leg.Policy)
	s.Text("smg.model", x.Model)
	s.Text("smg.routing_key.source", keySources[x.Key.Source])
}

var keySources = [...]string{pipeline.NoKey: "", pipeline.HeaderKey: "header", pipeline.RIDKey: "rid"}

// describeLeg says what is sent to whom: the conventions for HTTP clients, and for requests to generative models.
func (t *tracer) describeLeg(s *telemetry.Span, x *pipeline.Exchange, leg *pipeline.Leg) {
	e := leg.Worker.Endpoint()
	s.Text("http.request.method", x.Client.Method())
	s.Joined("url.full", e.Scheme, "://", e.Host, e.Prefix, x.Client.Path())
	s.Add(leg.Worker.TraceAttributes())
	s.Number("smg.attempt", int64(x.Number))
	if x.Number > 1 {
		s.Number("http.request.resend_count", int64(x.Number-1))
	}
	if x.Legs.Len() > 1 {
		s.Text("smg.pd.leg", leg.Role.String())
	}
	describeChoice(s, x, leg)
	describePool(s, x)
}

// failureOf says in a word how a leg failed; "" if it did not.
func failureOf(leg *pipeline.Leg) string {
	switch leg.Outcome {
	case pipeline.TimedOut:
		return "timeout"
	case pipeline.Unreachable:
		return "unreachable"
	case pipeline.Broken:
		return "broken"
	case pipeline.Cancelled, pipeline.ClientLeft:
		return "cancelled"
	case pipeline.ClientFault:
		return "upload"
	}
	if leg.Status >= http.StatusBadRequest {
		return strconv.Itoa(leg.Status)
	}
	return ""
}

// describeAnswer says what came back. A client calls failed what the server refused, too.
func describeAnswer(s *telemetry.Span, leg *pipeline.Leg) {
	if answered := leg.Outcome == pipeline.Answered || leg.Outcome == pipeline.Broken; answered && leg.Status != 0 {
		s.Number("http.response.status_code", int64(leg.Status))
	}
	if cause := failureOf(leg); cause != "" {
		s.Text("error.type", cause)
		s.Fail()
	}
	if !leg.FirstEvent.IsZero() {
		s.Event("gen_ai.first_token", leg.FirstEvent)
	}
}
