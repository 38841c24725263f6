package pipeline_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// serveError is what the client of a chain gets that ends with an error.
func serveError(t *testing.T, e *pipeline.Error) []string {
	t.Helper()
	m := &memory{}
	require.Same(t, e, chain(t, route, stage("end", func(*pipeline.Exchange, pipeline.Next) error { return e })).Serve(m))
	return m.got
}

// DECISIONS.md, row 25: the envelope of errors.
func TestTheEnvelopeOfAnError(t *testing.T) {
	tests := []struct {
		name string
		err  pipeline.Error
		body string
	}{
		{
			"a fault of the client, with the field",
			pipeline.Error{Status: 400, Code: "invalid_type", Message: "No number", Param: "top_p"},
			`{"error":{"message":"No number","type":"invalid_request_error","param":"top_p","code":"invalid_type"}}`,
		},
		{
			"too many requests",
			pipeline.Error{Status: 429, Code: "c", Message: "m"},
			`{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"c"}}`,
		},
		{
			"a fault of the gateway",
			pipeline.Error{Status: 500, Code: "c", Message: "m"},
			`{"error":{"message":"m","type":"server_error","param":null,"code":"c"}}`,
		},
		{
			"the last status of a client's fault",
			pipeline.Error{Status: 499, Code: "c", Message: "m"},
			`{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"c"}}`,
		},
		{
			"quotes in a message, and a cause, which nobody sees",
			pipeline.Error{Status: 502, Code: "c", Message: `"m"`, Cause: errors.New("secret")},
			`{"error":{"message":"\"m\"","type":"server_error","param":null,"code":"c"}}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := serveError(t, &tt.err)
			require.Equal(t, "body "+tt.body, got[len(got)-1])
			require.Equal(t, "field Content-Type: application/json", got[1])
			require.Equal(t, "field X-SMG-Error-Code: "+tt.err.Code, got[2])
		})
	}
}

// DESIGN.md, section 3: Retry-After in whole seconds, rounded up.
func TestRetryAfterIsRoundedUp(t *testing.T) {
	const none = ""
	for after, want := range map[time.Duration]string{
		0: none, -time.Second: none, 1: "1", time.Second: "1", time.Second + 1: "2", 1999 * time.Millisecond: "2", 30 * time.Second: "30",
	} {
		got := serveError(t, &pipeline.Error{Status: 503, Code: "c", RetryAfter: after})
		if want == none {
			require.Len(t, got, 4, "%s: %v", after, got)
			continue
		}
		require.Equal(t, "field Retry-After: "+want, got[3], after)
	}
}

// DECISIONS.md, row 25: 405 with Allow.
func TestAnErrorBringsItsFields(t *testing.T) {
	got := serveError(t, &pipeline.Error{
		Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", RetryAfter: time.Second,
		Fields: []pipeline.Field{{Name: "Allow", Value: "GET"}, {Name: "Allow", Value: "POST"}},
	})
	require.Equal(t, []string{"field Retry-After: 1", "field Allow: GET", "field Allow: POST"}, got[3:6])
}

// DESIGN.md, section 3, "Errors and retries": an answer that was held is written byte for byte.
func TestAHeldAnswerIsWrittenAsItIs(t *testing.T) {
	fields := []pipeline.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "Retry-After", Value: "7"}}
	held := &pipeline.Error{
		Status: 503, Code: "unused", Message: "unused", RetryAfter: time.Second, Fields: []pipeline.Field{{Name: "Unused", Value: "x"}},
		Held: &pipeline.Answer{Status: 503, Fields: fields, Body: []byte("busy\r\n\x00")},
	}
	want := []string{"head 503 length 7", "field Content-Type: text/plain", "field Retry-After: 7", "body busy\r\n\x00"}
	require.Equal(t, want, serveError(t, held))

	held.Held.Trailers = []pipeline.Field{{Name: "Checksum", Value: "1"}}
	want[0] = "head 503 length -1" // trailers come behind a body whose length was not declared
	require.Equal(t, append(want, "trailer Checksum: 1"), serveError(t, held))
}

// capture.md, section 2.1: routes of another API have errors of another form.
func TestAChainHasItsFormOfErrors(t *testing.T) {
	plain := func(e *pipeline.Error, requestID string) (string, []byte) {
		return "text/plain", []byte(e.Code + " for " + requestID)
	}
	base := chain(t, route, stage("request_id", func(x *pipeline.Exchange, next pipeline.Next) error {
		x.ID = "id-1"
		return next(x)
	}))
	formed, err := base.WithForm(plain).After("request_id", idle("more")) // altering keeps the form
	require.NoError(t, err)
	m := &memory{}
	_ = formed.Serve(m)
	require.Equal(t, []string{"head 500 length 23", "field Content-Type: text/plain", "field X-SMG-Error-Code: internal_error", "body internal_error for id-1"}, m.got)

	m = &memory{}
	_ = base.Serve(m)
	require.Equal(t, internal, m.got, "the original keeps its own")
}

// STYLE.md, e: the cause is for the log.
func TestTheTextOfAnErrorIsForTheLog(t *testing.T) {
	cause := errors.New("dial refused")
	e := &pipeline.Error{Code: "c", Message: "m", Cause: cause}
	require.EqualError(t, e, "c: m (dial refused)")
	require.ErrorIs(t, e, cause)
	require.EqualError(t, &pipeline.Error{Code: "c", Message: "m"}, "c: m")
}

// DECISIONS.md, row 30: the message tells the true reason.
func TestNoAvailableWorkersSaysWhy(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(ws []*workers.Worker)
		want    string
	}{
		{"nobody has a reason", func([]*workers.Worker) {}, "None of the 3 workers may be chosen for this request"},
		{"some are not ready", func(ws []*workers.Worker) {
			ws[0].SetStatus(workers.NotReady)
			ws[1].SetStatus(workers.Draining)
		}, "All 3 workers are unavailable (unhealthy or draining: 2)"},
		{"one is about to be removed by discovery, and ready so far", func(ws []*workers.Worker) {
			require.True(t, workers.NewRegistry(ws...).Cordon(ws[0], true))
			ws[1].SetStatus(workers.Draining)
		}, "All 3 workers are unavailable (unhealthy or draining: 1, no longer wanted by discovery: 1)"},
		{"one of each", func(ws []*workers.Worker) {
			ws[0].SetStatus(workers.NotReady)
			for range workers.DefaultBreakerSettings().FailureThreshold {
				ws[1].Breaker().Failure()
			}
			ws[2].SetOverloaded(true)
		}, "All 3 workers are unavailable (unhealthy or draining: 1, circuit breaker open: 1, overloaded: 1)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ws := fleet(t, 3)
			tt.prepare(ws)
			x := &pipeline.Exchange{}
			x.Pool = workers.ListOf(ws...)
			e := pipeline.NoAvailableWorkers(x)
			require.Equal(t, tt.want, e.Message)
			require.Equal(t, 503, e.Status)
			require.Equal(t, "no_available_workers", e.Code)
			require.Equal(t, time.Second, e.RetryAfter)
			require.False(t, e.Terminal)
		})
	}
	x := &pipeline.Exchange{}
	x.Pool = workers.ListOf(fleet(t, 3)...)
	x.Pool.At(2).SetStatus(workers.NotReady)
	require.Equal(t, "All 3 workers are unavailable (too tired: 2, unhealthy or draining: 1)", pipeline.Unavailable(x, "too tired: 2"))
	require.Equal(t, "No worker is registered", pipeline.NoAvailableWorkers(&pipeline.Exchange{}).Message)
}
