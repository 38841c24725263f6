package telemetry

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func share(ratio float64) *float64 { return &ratio }

// telemetry.md, section 6.2: of the traces that begin here, a share is recorded. The ids are the same in every run.
func TestSamplerRecordsAShareOfTheTracesThatBeginHere(t *testing.T) {
	const traces = 20000
	ids := rand.New(rand.NewPCG(1, 2))
	tests := []struct {
		name     string
		ratio    *float64
		min, max int
	}{
		{"all, if nothing is said", nil, traces, traces},
		{"all", share(1), traces, traces},
		{"none", share(0), 0, 0},
		{"a quarter", share(0.25), 0.24 * traces, 0.26 * traces},
		{"one in a thousand", share(0.001), 5, 40},
		{"more than all is all", share(7), traces, traces},
		{"less than none is none", share(-1), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t)
			s, err := newSampler(tt.ratio)
			require.NoError(t, err)
			recorded := 0
			for range traces {
				var c traceContext
				binary.BigEndian.PutUint64(c.trace[:8], ids.Uint64())
				binary.BigEndian.PutUint64(c.trace[8:], ids.Uint64())
				if s.ofRoot(&c) {
					recorded++
				}
			}
			require.GreaterOrEqual(t, recorded, tt.min)
			require.LessOrEqual(t, recorded, tt.max)
		})
	}
}

// The OpenTelemetry specification, "TraceIdRatioBased": who samples less samples a part of what others do, so that a trace is whole
// where several processes decide.
func TestSamplerOfASmallerShareRecordsNoOtherTraces(t *testing.T) {
	few, err := newSampler(share(0.1))
	require.NoError(t, err)
	many, err := newSampler(share(0.5))
	require.NoError(t, err)
	recorded := 0
	for range 1000 {
		var c traceContext
		c.newTrace()
		require.Equal(t, few.ofRoot(&c), few.ofRoot(&c), "the id decides, not chance")
		if few.ofRoot(&c) {
			recorded++
			require.True(t, many.ofRoot(&c))
		}
	}
	require.NotZero(t, recorded)
}

// telemetry.md, sections 6.1 and 6.2; the OpenTelemetry specification of OTEL_TRACES_SAMPLER
func TestSamplerByTheEnvironment(t *testing.T) {
	type decisions struct{ root, ofRecorded, ofUnrecorded bool }
	all, heeding := decisions{true, true, true}, decisions{true, true, false}
	tests := []struct {
		name, sampler, arg string
		ratio              *float64
		want               decisions
	}{
		{"nothing is said", "", "", nil, heeding},
		{"parentbased_always_on", "parentbased_always_on", "", nil, heeding},
		{"parentbased_always_off", "parentbased_always_off", "", nil, decisions{false, true, false}},
		{"parentbased_traceidratio of all", "parentbased_traceidratio", "1.0", nil, heeding},
		{"parentbased_traceidratio of none", "parentbased_traceidratio", "0", nil, decisions{false, true, false}},
		{"parentbased_traceidratio without a ratio", "parentbased_traceidratio", "", nil, heeding},
		{"always_on does not ask the parent", "always_on", "", nil, all},
		{"always_off does not ask the parent", "always_off", "", nil, decisions{}},
		{"traceidratio of all does not ask the parent", "traceidratio", "1", nil, all},
		{"traceidratio of none does not ask the parent", "traceidratio", "0", nil, decisions{}},
		{"always_on has no argument", "always_on", "nonsense", nil, all},
		{"a flag wins", "always_off", "", share(1), heeding},
		{"a flag wins over nonsense", "nonsense", "", share(0), decisions{false, true, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t, "OTEL_TRACES_SAMPLER", tt.sampler, "OTEL_TRACES_SAMPLER_ARG", tt.arg)
			s, err := newSampler(tt.ratio)
			require.NoError(t, err)
			recorded, _ := parseTraceContext(someParent, "")
			unrecorded := recorded
			unrecorded.sampled = false
			require.Equal(t, tt.want, decisions{s.ofRoot(&recorded), s.ofParent(&recorded), s.ofParent(&unrecorded)})
		})
	}
}

// telemetry.md, section 6.1
func TestSamplerThatCannotBeMade(t *testing.T) {
	tests := []struct{ name, sampler, arg, wrong string }{
		{"a name nobody knows", "sometimes", "", "OTEL_TRACES_SAMPLER"},
		{"a ratio that is no number", "traceidratio", "a quarter", "OTEL_TRACES_SAMPLER_ARG"},
		{"a ratio above 1", "parentbased_traceidratio", "1.01", "OTEL_TRACES_SAMPLER_ARG"},
		{"a ratio below 0", "traceidratio", "-0.1", "OTEL_TRACES_SAMPLER_ARG"},
		{"a ratio that is not a number", "traceidratio", "NaN", "OTEL_TRACES_SAMPLER_ARG"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			quietEnv(t, "OTEL_TRACES_SAMPLER", tt.sampler, "OTEL_TRACES_SAMPLER_ARG", tt.arg)
			_, err := newSampler(nil)
			require.ErrorContains(t, err, tt.wrong+" is ")
			_, err = NewTracing(TracingOptions{})
			require.ErrorContains(t, err, tt.wrong+" is ", "it is the error of the tracing as well")
		})
	}
}

// telemetry.md, section 6.2: a parent that is not recorded is heeded by all spans of the request, and passed on.
func TestSpansOfAParentThatIsNotRecorded(t *testing.T) {
	quietEnv(t)
	r := receive(t, &receiver{})
	tr := trace(t, r.address)
	var server, client, part Span
	tr.StartServer(&server, "POST /generate", time.Now(), func(name string) string {
		return map[string]string{"Traceparent": someParent[:53] + "00", "Tracestate": "vendor=1"}[name]
	})
	server.StartClient(&client, "chat", time.Now())
	server.StartPart(&part, "smg.policy", time.Now())
	for _, s := range []*Span{&server, &client, &part} {
		require.False(t, s.Recording())
		traceID, spanID := s.IDs()
		require.Equal(t, someTrace, traceID)
		parent, state := s.Propagate()
		require.Equal(t, "00-"+someTrace+"-"+spanID+"-00", parent)
		require.Equal(t, "vendor=1", state)
		s.Text("key", "value")
		s.Fail()
		s.End(time.Now())
	}
	require.NoError(t, tr.Close(t.Context()))
	tr.counted(t, 0, 0, 0)
	require.Empty(t, r.batches())
}
