package pipeline_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// journal is a tracer, and the record of a request: it notes what it is told, call by call.
type journal struct {
	timed bool // it wants to hear of stages
	told  []string
	err   error // what it was told at the end
}

var (
	_ pipeline.Tracer = (*journal)(nil)
	_ pipeline.Trace  = (*journal)(nil)
)

func (j *journal) Begin(*pipeline.Exchange) (pipeline.Trace, bool) {
	j.note("begin")
	return j, j.timed
}

func (j *journal) Stage(_ *pipeline.Exchange, _ int, s pipeline.Stage, _, total, self time.Duration) {
	j.note("%s %v %v", s.Name(), total, self)
}

func (j *journal) Send(_ *pipeline.Exchange, leg *pipeline.Leg) []pipeline.Field {
	j.note("send to %s", leg.Worker.URL())
	return []pipeline.Field{{Name: "traceparent", Value: "of the leg"}}
}

func (j *journal) Received(_ *pipeline.Exchange, leg *pipeline.Leg, body []byte) {
	j.note("received %s from %s", body, leg.Worker.URL())
}

func (j *journal) IDs() (trace, span string) { return "t1", "s1" }

func (j *journal) End(x *pipeline.Exchange, err error) {
	j.err = err
	j.note("end %d", x.Status())
}

func (j *journal) note(format string, args ...any) {
	j.told = append(j.told, fmt.Sprintf(format, args...))
}

// takes is a stage that takes some time before what is behind it, and some after.
func takes(name string, before, after time.Duration) pipeline.Stage {
	return stage(name, func(x *pipeline.Exchange, next pipeline.Next) error {
		time.Sleep(before)
		defer time.Sleep(after)
		return next(x)
	})
}

// ends is a stage that takes some time and answers.
func ends(took time.Duration) pipeline.Stage {
	return stage("ends", func(x *pipeline.Exchange, _ pipeline.Next) error {
		time.Sleep(took)
		return say(x, "hello")
	})
}

// DESIGN.md, section 3, "Seeing": a stage's duration is its self time, total minus next. The clock is that of the test, which moves
// only while all sleep: the times are exact.
func TestStagesAreToldInnermostFirstWithTheirOwnTime(t *testing.T) {
	const s = time.Second
	faulty := errors.New("faulty")
	tests := []struct {
		name   string
		stages []pipeline.Stage
		want   []string // stage, total and self, between the beginning and the end
		failed bool
	}{
		{
			"self is total without what is behind",
			[]pipeline.Stage{takes("outer", s, 2*s), takes("middle", 4*s, 0), takes("inner", 0, 8*s), ends(16 * s)},
			[]string{"ends 16s 16s", "inner 24s 8s", "middle 28s 4s", "outer 31s 3s"},
			false,
		},
		{"a stage that answers has nobody behind it", []pipeline.Stage{takes("outer", s, 0), ends(s), takes("never", s, s)}, []string{"ends 1s 1s", "outer 2s 1s"}, false},
		{"stages that take no time are told too", []pipeline.Stage{idle("idle"), ends(0)}, []string{"ends 0s 0s", "idle 0s 0s"}, false},
		{
			"a stage that calls next twice has what both took behind it",
			[]pipeline.Stage{
				takes("outer", s, 0),
				stage("retry", func(x *pipeline.Exchange, next pipeline.Next) error {
					x.BeginAttempt()
					_ = next(x)
					time.Sleep(s)
					x.BeginAttempt()
					return next(x)
				}),
				stage("forward", func(x *pipeline.Exchange, _ pipeline.Next) error {
					time.Sleep(time.Duration(x.Number) * 10 * s)
					if x.Number == 1 {
						return faulty
					}
					return say(x, "hello")
				}),
			},
			[]string{"forward 10s 10s", "forward 20s 20s", "retry 31s 1s", "outer 32s 1s"},
			false,
		},
		{
			"an error takes its time",
			[]pipeline.Stage{takes("outer", s, s), stage("faulty", func(*pipeline.Exchange, pipeline.Next) error {
				time.Sleep(s)
				return faulty
			})},
			[]string{"faulty 1s 1s", "outer 3s 2s"},
			true,
		},
		{
			"a panic takes its time, and is told of all that it goes through",
			[]pipeline.Stage{takes("outer", s, s), stage("crash", func(*pipeline.Exchange, pipeline.Next) error {
				time.Sleep(s)
				panic("crash")
			})},
			[]string{"crash 1s 1s", "outer 3s 2s"},
			true,
		},
		{
			"a stage that stops a panic has it behind it",
			[]pipeline.Stage{
				takes("outer", s, 0),
				stage("conclude", func(x *pipeline.Exchange, next pipeline.Next) error {
					err := x.Conclude(next)
					time.Sleep(2 * s)
					return err
				}),
				takes("between", 4*s, 0),
				stage("crash", func(*pipeline.Exchange, pipeline.Next) error {
					time.Sleep(8 * s)
					panic("crash")
				}),
			},
			[]string{"crash 8s 8s", "between 12s 4s", "conclude 14s 2s", "outer 15s 1s"},
			true,
		},
		{
			"waiting for others is not a stage's own time",
			[]pipeline.Stage{
				takes("outer", s, 0),
				stage("forward", func(x *pipeline.Exchange, _ pipeline.Next) error {
					time.Sleep(s)
					for range 2 {
						since := x.Wait()
						time.Sleep(10 * s)
						x.Waited(since)
						time.Sleep(2 * s)
					}
					return say(x, "hello")
				}),
			},
			[]string{"forward 25s 5s", "outer 26s 1s"},
			false,
		},
		{
			"waiting is possible before and behind next",
			[]pipeline.Stage{
				stage("waits", func(x *pipeline.Exchange, next pipeline.Next) error {
					since := x.Wait()
					time.Sleep(10 * s)
					x.Waited(since)
					defer x.Waited(x.Wait())
					return next(x)
				}),
				idle("idle"),
				stage("end", func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hello") }),
			},
			[]string{"end 0s 0s", "idle 0s 0s", "waits 10s 0s"},
			false,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{timed: true}
				err := chain(t, route, tt.stages...).Traced(j).Serve(&memory{})
				require.Equal(t, tt.failed, err != nil)
				require.Equal(t, err, j.err, "the record is told what the chain returned")
				require.Equal(t, "begin", j.told[0])
				require.Equal(t, tt.want, j.told[1:len(j.told)-1])
			})
		})
	}
}

// DESIGN.md, section 3: a panic is a 500, for the record as well.
func TestTraceIsToldOfTheEndOnceAndLast(t *testing.T) {
	tests := []struct {
		name, end string
		timed     bool
		handle    handle
		client    memory
	}{
		{"an answer", "end 200", true, func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hi") }, memory{}},
		{"an answer, untimed", "end 200", false, func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hi") }, memory{}},
		{"an error", "end 500", true, func(*pipeline.Exchange, pipeline.Next) error { return errBrokenPipe }, memory{}},
		{"a panic", "end 500", true, func(*pipeline.Exchange, pipeline.Next) error { panic("crash") }, memory{}},
		{"a panic, untimed", "end 500", false, func(*pipeline.Exchange, pipeline.Next) error { panic("crash") }, memory{}},
		{"nobody answers", "end 500", true, pass, memory{}},
		{"a client that left", "end 0", true, func(*pipeline.Exchange, pipeline.Next) error { return pipeline.ErrClientGone }, memory{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j := &journal{timed: tt.timed}
			err := chain(t, route, stage("only", tt.handle)).Traced(j).Serve(&tt.client)
			require.Equal(t, err, j.err)
			require.Equal(t, "begin", j.told[0])
			require.Equal(t, tt.end, j.told[len(j.told)-1])
			told := 2 // beginning and end
			if tt.timed {
				told++
			}
			require.Len(t, j.told, told, "stages are told of only if somebody wants to hear of them")
		})
	}
}

// DESIGN.md, section 3, "Assembling": a chain that is made of another keeps what the other has beside its stages.
func TestChainThatIsMadeOfATracedOneIsTraced(t *testing.T) {
	j := &journal{timed: true}
	of := func(c *pipeline.Chain, err error) func(t *testing.T) *pipeline.Chain {
		return func(t *testing.T) *pipeline.Chain { require.NoError(t, err); return c }
	}
	plain := chain(t, route, idle("a"), idle("b"), answers("end", "hello"))
	traced := plain.Traced(j)
	tests := []struct {
		name   string
		chain  func(t *testing.T) *pipeline.Chain
		stages []string // that are told of, innermost first
	}{
		{"itself", of(traced, nil), []string{"end", "b", "a"}},
		{"Before", of(traced.Before("b", idle("new"))), []string{"end", "b", "new", "a"}},
		{"After", of(traced.After("b", idle("new"))), []string{"end", "new", "b", "a"}},
		{"Replace", of(traced.Replace("b", idle("new"))), []string{"end", "new", "a"}},
		{"Without", of(traced.Without("b")), []string{"end", "a"}},
		{"Until", of(traced.Until("b")), []string{"b", "a"}},
		{"WithForm", of(traced.WithForm(pipeline.OpenAIForm), nil), []string{"end", "b", "a"}},
		{"Traced, once more", of(chain(t, route, answers("end", "hello")).Traced(&journal{}).Traced(j), nil), []string{"end"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j.told = nil
			_ = tt.chain(t).Serve(&memory{})
			require.Len(t, j.told, len(tt.stages)+2)
			for i, name := range tt.stages {
				require.Contains(t, j.told[i+1], name+" ")
			}
		})
	}
	t.Run("the one that it was made of is as it was", func(t *testing.T) {
		j.told = nil
		require.NoError(t, plain.Serve(&memory{}))
		require.Empty(t, j.told)
	})
	t.Run("nor does tracing change the form of errors", func(t *testing.T) {
		short := func(e *pipeline.Error, _ string) (string, []byte) { return "text/plain", []byte(e.Code) }
		formed := chain(t, route, idle("nobody_answers")).WithForm(short)
		for _, c := range []*pipeline.Chain{formed, formed.Traced(j)} {
			m := &memory{}
			require.Error(t, c.Serve(m))
			require.Equal(t, "internal_error", m.body())
		}
	})
}

// A trace hears of each leg, and says what its worker gets.
func TestTraceHearsOfLegs(t *testing.T) {
	for _, timed := range []bool{true, false} {
		j := &journal{timed: timed}
		w := fleet(t, 1)[0]
		c := chain(t, route, stage("forward", func(x *pipeline.Exchange, _ pipeline.Next) error {
			leg := x.Legs.Add(w, 0)
			require.Equal(t, []pipeline.Field{{Name: "traceparent", Value: "of the leg"}}, x.TellSend(leg))
			x.TellReceived(leg, []byte("hello"))
			traceID, spanID := x.TraceIDs()
			require.Equal(t, "t1 s1", traceID+" "+spanID)
			return say(x, "hello")
		})).Traced(j)
		require.NoError(t, c.Serve(&memory{}))
		require.Equal(t, []string{"begin", "send to " + w.URL(), "received hello from " + w.URL()}, j.told[:3])
	}
}

// tracerFunc is a tracer as a function.
type tracerFunc func(x *pipeline.Exchange) (pipeline.Trace, bool)

func (f tracerFunc) Begin(x *pipeline.Exchange) (pipeline.Trace, bool) { return f(x) }

// untraced is a stage that looks for a trace where there is none.
func untraced(t *testing.T) pipeline.Stage {
	return stage("look", func(x *pipeline.Exchange, next pipeline.Next) error {
		leg := x.Legs.Add(nil, 0)
		require.Nil(t, x.TellSend(leg), "the client's own fields go to the worker")
		x.TellReceived(leg, nil)
		traceID, spanID := x.TraceIDs()
		require.Empty(t, traceID+spanID)
		since := x.Wait()
		require.Zero(t, since)
		x.Waited(since)
		return next(x)
	})
}

func TestRequestsWithoutATrace(t *testing.T) {
	none := tracerFunc(func(*pipeline.Exchange) (pipeline.Trace, bool) { return nil, false })
	plain := chain(t, route, untraced(t), answers("end", "hello"))
	for name, c := range map[string]*pipeline.Chain{"no tracer": plain, "a tracer that does not record the request": plain.Traced(none)} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			require.NoError(t, c.Serve(m))
			require.Equal(t, "hello", m.body())
		})
	}
}

// An exchange is used again: what was traced is not, the next time.
func TestExchangeForgetsItsTrace(t *testing.T) {
	j := &journal{timed: true}
	none := tracerFunc(func(*pipeline.Exchange) (pipeline.Trace, bool) { return nil, false })
	tests := []struct {
		name   string
		handle handle
	}{
		{"after an answer", func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hello") }},
		{"after a panic", func(*pipeline.Exchange, pipeline.Next) error { panic("crash") }},
		{"after a wait", func(x *pipeline.Exchange, _ pipeline.Next) error {
			x.Waited(time.Now().Add(-time.Hour))
			return say(x, "hello")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := &pipeline.Exchange{Client: &memory{}}
			_ = chain(t, route, idle("a"), stage("end", tt.handle)).Traced(j).Run(x)
			for _, tracer := range []pipeline.Tracer{nil, none} {
				x.Reset()
				x.Client = &memory{}
				require.NoError(t, chain(t, route, untraced(t), answers("end", "hello")).Traced(tracer).Run(x))
			}
			x.Reset()
			x.Client = &memory{}
			synctest.Test(t, func(t *testing.T) {
				again := &journal{timed: true}
				require.NoError(t, chain(t, route, takes("a", time.Second, 0), answers("end", "hello")).Traced(again).Run(x))
				require.Equal(t, []string{"begin", "end 0s 0s", "a 1s 1s", "end 200"}, again.told)
			})
		})
	}
}

// DESIGN.md, section 3, "Assembling": no allocation that belongs to the framework, whether requests are traced or not.
func TestTracingAllocatesNothingOfItsOwn(t *testing.T) {
	if raceDetector {
		t.Skip("pools forget on purpose under the race detector")
	}
	record := &silent{}
	tests := []struct {
		name  string
		chain *pipeline.Chain
	}{
		{"no tracer", empties(t, 12)},
		{"a tracer that was taken away", empties(t, 12).Traced(record).Traced(nil)},
		{"a tracer that does not record the request", empties(t, 12).Traced(tracerFunc(func(*pipeline.Exchange) (pipeline.Trace, bool) { return nil, false }))},
		{"a record that does not hear of stages", empties(t, 12).Traced(tracerFunc(func(*pipeline.Exchange) (pipeline.Trace, bool) { return record, false }))},
		{"a record that hears of stages", empties(t, 12).Traced(record)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(1000, func() { _ = tt.chain.Serve(deaf{}) }))
		})
	}
	require.NotZero(t, record.stages)
}

// silent is a tracer and a record that keep nothing.
type silent struct{ stages int }

func (s *silent) Begin(*pipeline.Exchange) (pipeline.Trace, bool) { return s, true }
func (s *silent) Stage(*pipeline.Exchange, int, pipeline.Stage, time.Duration, time.Duration, time.Duration) {
	s.stages++
}
func (*silent) Send(*pipeline.Exchange, *pipeline.Leg) []pipeline.Field { return nil }
func (*silent) Received(*pipeline.Exchange, *pipeline.Leg, []byte)      {}
func (*silent) IDs() (trace, span string)                               { return "", "" }
func (*silent) End(*pipeline.Exchange, error)                           {}
