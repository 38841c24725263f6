package pipeline_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// empty is a stage that does nothing.
type empty struct{ name string }

func (e *empty) Name() string                                        { return e.name }
func (*empty) Handle(x *pipeline.Exchange, next pipeline.Next) error { return next(x) }

// noContent is a stage that answers without a body.
type noContent struct{}

func (noContent) Name() string { return "no_content" }
func (noContent) Handle(x *pipeline.Exchange, _ pipeline.Next) error {
	return x.WriteHead(204, 0, nil)
}

// empties is a chain of n stages that do nothing, and one that answers.
func empties(t testing.TB, n int) *pipeline.Chain {
	t.Helper()
	var stages []pipeline.Stage
	for i := range n {
		stages = append(stages, &empty{fmt.Sprintf("empty_%d", i)})
	}
	return chain(t, route, append(stages, noContent{})...)
}

// DESIGN.md, section 3: no allocation that belongs to the framework.
func TestServingAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("pools forget on purpose under the race detector")
	}
	rt := quiet()
	require.NoError(t, rt.Serve(empties(t, 12)))
	require.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = rt.Handle(route, deaf{}) }))
	rt.Stop(t.Context())
}

// BenchmarkEmptyStage is what one stage more costs a request: ten empty stages minus none, each the best of its batches, so
// that what else the machine does counts little. The mark to keep is 5 ns. To compare machines, a call through a pointer is
// measured beside it: a stage is two of those. The first few stages cost less than the later ones, whose returns are too deep
// for the processor to predict.
func BenchmarkEmptyStage(b *testing.B) {
	const stages, batch = 10, 1000
	none, ten := empties(b, 0), empties(b, stages)
	without, with, call := math.Inf(1), math.Inf(1), math.Inf(1)
	b.ReportAllocs()
	for b.Loop() {
		without = min(without, each(batch, func() { _ = none.Serve(deaf{}) }))
		with = min(with, each(batch, func() { _ = ten.Serve(deaf{}) }))
		call = min(call, each(batch, plain))
	}
	b.ReportMetric((with-without)/stages, "ns/stage")
	b.ReportMetric(call, "ns/call")
}

// each is the time in nanoseconds that one of n calls of f takes.
func each(n int, f func()) float64 {
	start := time.Now()
	for range n {
		f()
	}
	return float64(time.Since(start).Nanoseconds()) / float64(n)
}

//go:noinline
func plain() {}

// BenchmarkServe is what the framework costs a request of twelve stages in all.
func BenchmarkServe(b *testing.B) {
	rt := quiet()
	require.NoError(b, rt.Serve(empties(b, 12)))
	b.ReportAllocs()
	for b.Loop() {
		_, _ = rt.Handle(route, deaf{})
	}
	rt.Stop(b.Context())
}
