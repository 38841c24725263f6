package forward

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// gapsOf is how many gaps are observed in a stream that comes in pieces, a second apart, and how long they are in all.
func gapsOf(pieces ...string) (n uint64, seconds float64) {
	m := telemetry.NewMetrics(telemetry.Options{})
	g := &gaps{series: m.Router.Series("m", telemetry.EndpointChat)}
	at := time.Unix(1, 0)
	for _, piece := range pieces {
		g.add([]byte(piece), at)
		at = at.Add(time.Second)
	}
	families, _ := m.Registry().Gather()
	for _, f := range families {
		if f.GetName() == "smg_router_itl_seconds" {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), h.GetSampleSum()
		}
	}
	return 0, 0
}

// telemetry.md, section 5: events are counted, not reads; comments are none.
func TestGapsBetweenEvents(t *testing.T) {
	tests := []struct {
		name    string
		pieces  []string
		n       uint64
		seconds float64
	}{
		{"a stream of eleven events has ten", strings.SplitAfter(strings.Repeat("data: {}\n\n", 11), "\n\n")[:11], 10, 10},
		{"events that come at once are as near as that", []string{"data: 1\n\ndata: 2\n\n", "data: 3\n\n"}, 2, 1},
		{"an event has come when its end has", []string{"data: 1\n\nda", "ta: 2", "\n", "\n"}, 1, 3},
		{"one event alone has none", []string{"data: 1\n\n"}, 0, 0},
		{"a comment is no event", []string{"data: 1\n\n", ": ping\n\n", ":data: no\n\n", "data: 2\n\n"}, 1, 3},
		{"what has no data is no event", []string{"data: 1\n\n", "event: ping\n\n", "database: x\n\n", "data: 2\n\n"}, 1, 3},
		{"an event of several lines is one", []string{"event: a\ndata: {\ndata: }\nid: 1\n\n", "event: a\ndata: {}\n\n"}, 1, 1},
		{"CR LF", []string{"data: 1\r\n\r", "\ndata: 2\r\n\r\n"}, 1, 1},
		{"CR", []string{"data: 1\r\rdata: 2\r", "\r"}, 1, 1},
		{"the end of the stream is an event as well", []string{"data: 1\n\n", "data: [DONE]\n\n"}, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, seconds := gapsOf(tt.pieces...)
			require.Equal(t, tt.n, n)
			require.InDelta(t, tt.seconds, seconds, 1e-9)
		})
	}
}

// However a stream is cut into reads, it has the same events.
func FuzzGaps(f *testing.F) {
	f.Add("data: 1\n\n: ping\n\ndata: 2\r\n\r\ndata: 3\r\r", uint8(3))
	f.Add("data:\n\ndat\n\ndata: \n\n\n\n", uint8(1))
	f.Fuzz(func(t *testing.T, stream string, width uint8) {
		whole, _ := gapsOf(stream)
		var pieces []string
		for rest, n := stream, int(width)+1; rest != ""; {
			n = min(n, len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		cut, _ := gapsOf(pieces...)
		require.Equal(t, whole, cut)
	})
}
