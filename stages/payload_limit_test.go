package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// http-dataplane.md, section 3.1: "limit 1024; body 1024 bytes -> 200; 1025 bytes -> 413", and nothing else looks at it.
func TestPayloadLimitGoesByTheDeclaredLength(t *testing.T) {
	for length, status := range map[int64]int{0: 200, -1: 200, 1023: 200, 1024: 200, 1025: 413, 1 << 40: 413} {
		c := chat()
		c.length = length
		looked := false
		_, err := c.through(t, PayloadLimit(1024), last(200, func(*pipeline.Exchange) { looked = true }))
		require.Equal(t, status, c.status, "declared: %d", length)
		require.Equal(t, status == 200, looked)
		require.Zero(t, c.reads, "no byte of the body is read")
		if status == 413 {
			require.Equal(t, "request_body_too_large", c.code())
			require.True(t, pipeline.AsError(err).Terminal)
			require.Contains(t, c.got.String(), `"type":"invalid_request_error","param":null,"code":"request_body_too_large"`)
		}
	}
}

// http-dataplane.md, section 3.1: chunked bodies, and streamed ones, have the same limit; the worker sees none of it whole.
func TestTheLimitHoldsForBodiesOfUnknownLength(t *testing.T) {
	const limit = 1024
	for _, over := range []int{0, 1, 5000} {
		whole := sized(limit + over)
		body := make([]byte, limit+over)
		_, _ = whole.body.Read(body)
		r := newRig(t, 1, func(s *rigging) { s.body.MaxBytes = limit })
		c := r.ask(chunked(chatPath, string(body)))
		if over == 0 {
			require.Equal(t, 200, c.status)
			require.Equal(t, string(body), string(r.posts(0)[0].Body))
			continue
		}
		require.Equal(t, 413, c.status)
		require.Equal(t, "request_body_too_large", c.code())
		require.Empty(t, r.posts(0))
	}
	r := newRig(t, 1, func(s *rigging) {
		unretried(s)
		s.forward.MaxUpload = limit
	})
	c := r.ask(sized(limit + 1))
	require.Equal(t, 413, c.status, "a streamed upload that grows over the limit")
	require.Equal(t, "request_body_too_large", c.code())
	require.Zero(t, r.workers[0].Breaker().ConsecutiveFailures(), "section 4: the client's fault")
}
