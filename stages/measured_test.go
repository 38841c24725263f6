package stages

import (
	"io"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

// waited is how long somebody else takes in these tests: enough to be told from what the gateway takes itself.
const waited = 200 * time.Millisecond

// pausing is a body whose first bytes take their time.
type pausing struct{ io.Reader }

func (p *pausing) Read(b []byte) (int, error) {
	if p.Reader == nil {
		return 0, io.EOF
	}
	<-time.After(waited)
	n, err := p.Reader.Read(b)
	p.Reader = nil
	return n, err
}

// telemetry.md, section 5, the check: the wait for a worker, and every other one, is none of the gateway's own time.
func TestOverheadIsTheGatewaysOwnTime(t *testing.T) {
	slowly := func(_ *testing.T, r *rig) *caller {
		c := chat()
		c.body = &pausing{Reader: c.body}
		return r.ask(c)
	}
	tests := []struct {
		name string
		with func(*rigging)
		do   func(t *testing.T, r *rig) *caller
	}{
		{"a worker that takes its time with its head", nil, faulty(small, engine.Fault{HangHeadMillis: int(waited.Milliseconds())})},
		{"a worker that takes its time with a stream", nil, faulty(stream, engine.Fault{HangHeadMillis: int(waited.Milliseconds())})},
		{"a client that takes its time with its body", nil, slowly},
		{"a client whose body goes through unread", unretried, slowly},
		{"a pause before another attempt", func(s *rigging) {
			s.retry.InitialBackoff, s.retry.Jitter = waited, 0
		}, faulty(small, engine.Fault{Status: 503, Count: 1})},
		{"a wait for admission", crowded, func(t *testing.T, r *rig) *caller {
			require.True(t, r.limiter.permits.enter())
			return r.queuing(t, chat(), func() {
				<-time.After(waited)
				r.limiter.permits.release()
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, tt.with)
			began := time.Now()
			require.Equal(t, 200, tt.do(t, r).status)
			took := time.Since(began)
			h := r.histogram(t, "smg_gateway_overhead_seconds")
			require.EqualValues(t, 1, h.GetSampleCount())
			require.Positive(t, h.GetSampleSum())
			require.LessOrEqual(t, h.GetSampleSum(), (took - waited + waited/10).Seconds(), "of %s", took)
		})
	}
}

// histogram is the only series of a family.
func (r *rig) histogram(t *testing.T, family string) *dto.Histogram {
	t.Helper()
	families, err := r.metrics.Registry().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == family {
			require.Len(t, f.GetMetric(), 1)
			return f.GetMetric()[0].GetHistogram()
		}
	}
	return &dto.Histogram{}
}

// telemetry.md, section 5; what costs time to measure is measured of one request in 64, the first one included.
func TestOneRequestInManyIsMeasured(t *testing.T) {
	r := newRig(t, 1, nil)
	for range observedOf + 1 {
		require.Equal(t, 200, r.ask(post(chatPath, stream)).status)
	}
	counts := r.counted(t)
	require.Equal(t, 2, counts["gateway_overhead_seconds{chat}"])
	require.Equal(t, 2, counts["policy_decision_seconds{round_robin}"])
	require.Equal(t, 2*19, counts["router_itl_seconds{chat m1 http}"], "a stream of the engine has 20 data events")
	require.Equal(t, observedOf+1, counts["worker_request_duration_seconds{w1}"], "each")
	require.Equal(t, observedOf+1, r.total(t, "upstream_connections_total"), "each")
}

// telemetry.md, section 5: a refusal of the gateway itself says nothing of what it adds to an answer.
func TestOverheadIsOfRequestsThatWereSent(t *testing.T) {
	r := newRig(t, 0, attempts(1))
	require.Equal(t, 503, r.ask(chat()).status)
	require.Zero(t, r.total(t, "gateway_overhead_seconds"))
}

// telemetry.md, section 5: the time for which a stream stands still is its client's.
func TestBackpressureOfAStream(t *testing.T) {
	const pause = 20 * time.Millisecond
	r := newRig(t, 1, nil)
	c := post(chatPath, stream)
	writes := 0
	c.onWrite = func(*caller, []byte) {
		if writes++; writes <= 2 {
			<-time.After(pause)
		}
	}
	require.Equal(t, 200, r.ask(c).status)
	families, err := r.metrics.Registry().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "smg_stream_backpressure_seconds_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == "chat" {
				require.GreaterOrEqual(t, m.GetCounter().GetValue(), (time.Duration(min(writes, 2)) * pause).Seconds())
				return
			}
		}
	}
	require.Fail(t, "no such series")
}

// A request that is not measured knows of no overhead, nor does one without a head.
func TestOverheadIsKnownOfMeasuredRequestsWithAHead(t *testing.T) {
	for _, measured := range []bool{false, true} {
		x := &pipeline.Exchange{Client: chat(), Arrived: time.Now(), Measured: measured}
		_, ok := x.Overhead()
		require.False(t, ok)
		require.NoError(t, x.WriteHead(200, 0, nil))
		_, ok = x.Overhead()
		require.Equal(t, measured, ok)
	}
}
