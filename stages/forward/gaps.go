package forward

import (
	"bytes"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// gaps observes the time between the data events of a stream, whatever the reads that they come in. Comments are no events, nor
// are blocks without data.
type gaps struct {
	series *telemetry.RouterSeries
	gap    prometheus.Observer // of the series, once there is a first gap
	last   time.Time           // when the last event was whole; zero before the first
	data   bool                // the event that is coming has data
	length int                 // of the line that is coming, without its end
	start  [len(dataField)]byte
	cr     bool // a CR ended the last line: a LF behind it is of the same end
}

// dataField begins the lines of an event that carry its data.
const dataField = "data:"

// gaps is for a stream of events whose gaps are wanted; else nil.
func (f *forward) gaps(x *pipeline.Exchange, leg *pipeline.Leg) *gaps {
	if !x.Measured || !leg.Streamed || f.Metrics == nil {
		return nil
	}
	label := f.Metrics.ModelLabel(x.Model, x.Served)
	return &gaps{series: f.Metrics.Router.Series(label, telemetry.EndpointOf(x.Client.Path()))}
}

// add takes in a piece of the stream that has come at a moment.
func (g *gaps) add(piece []byte, at time.Time) {
	for len(piece) > 0 {
		if g.cr && piece[0] == '\n' {
			piece = piece[1:]
			g.cr = false
			continue
		}
		g.cr = false
		end := bytes.IndexAny(piece, "\r\n")
		if end < 0 {
			g.part(piece)
			return
		}
		g.part(piece[:end])
		g.cr = piece[end] == '\r'
		piece = piece[end+1:]
		g.endLine(at)
	}
}

// part takes in bytes of the line that is coming. Only its first ones say what it is.
func (g *gaps) part(b []byte) {
	if g.length < len(g.start) {
		copy(g.start[g.length:], b)
	}
	g.length += len(b)
}

func (g *gaps) endLine(at time.Time) {
	switch {
	case g.length == 0 && g.data:
		g.event(at)
		g.data = false
	case g.length >= len(g.start) && string(g.start[:]) == dataField:
		g.data = true
	}
	g.length = 0
}

func (g *gaps) event(at time.Time) {
	if !g.last.IsZero() {
		if g.gap == nil {
			g.gap = g.series.Gap()
		}
		g.gap.Observe(at.Sub(g.last).Seconds())
	}
	g.last = at
}
