package stages

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// gated is a chain with admission in front of work that takes time, in virtual time.
type gated struct {
	*pipeline.Chain
	limiter *Limiter
	metrics *telemetry.Metrics
	began   time.Time

	mu      sync.Mutex
	order   []string // the ids of requests, as they are let in
	running int
	most    int // of running
}

// work is what a request does once it is let in, by its id; it takes a second if it is not said otherwise.
type work map[string]func(x *pipeline.Exchange) error

func gate(t testing.TB, s AdmissionSettings, all work) *gated {
	t.Helper()
	g := &gated{metrics: telemetry.NewMetrics(telemetry.Options{}), began: time.Now()}
	if s.Wait == 0 {
		s.Wait = time.Minute
	}
	g.limiter = NewLimiter(s, g.metrics.Admission)
	g.Chain = assembled(t, RequestID([]string{"x-request-id"}), HTTPMetrics(chatPath, g.metrics), Admission(g.limiter),
		pipeline.StageFunc("work", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			defer g.enter(x.ID)()
			if act := all[x.ID]; act != nil {
				return act(x)
			}
			return taking(time.Second)(x)
		}))
	return g
}

func (g *gated) enter(id string) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.order = append(g.order, id)
	g.running++
	g.most = max(g.most, g.running)
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
	}
}

// taking answers with a stream that takes so long.
func taking(d time.Duration) func(*pipeline.Exchange) error {
	return func(x *pipeline.Exchange) error {
		if err := x.WriteHead(200, -1, nil); err != nil {
			return err
		}
		time.Sleep(d)
		return nil
	}
}

// visit is a request under way.
type visit struct {
	*caller
	over chan struct{}
	took time.Duration // from the gate's beginning
}

// send begins a request, and returns when it waits for something.
func (g *gated) send(id string) *visit {
	v := &visit{caller: chat("X-Request-Id", id), over: make(chan struct{})}
	go func() {
		defer close(v.over)
		_ = g.Serve(v.caller)
		v.took = time.Since(g.began)
	}()
	synctest.Wait()
	return v
}

// requireEmpty: no permit is held, and nobody waits.
func (g *gated) requireEmpty(t testing.TB) {
	t.Helper()
	require.Zero(t, g.limiter.permits.sample())
	require.Zero(t, g.metrics.Inflight.Len())
}

func (g *gated) value(t testing.TB, family string, labels ...string) float64 {
	t.Helper()
	families, err := g.metrics.Registry().Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != family || len(labels) > 0 && m.GetLabel()[len(m.GetLabel())-1].GetValue() != labels[0] {
				continue
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("no series %s %v", family, labels)
	return 0
}

// http-dataplane.md, section 11.1, the first check: who waits, who is refused, and when.
func TestAdmissionBoundsWhoRunsAndWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := taking(3 * time.Second)
		g := gate(t, AdmissionSettings{Requests: 2, Queue: 1, Wait: time.Second}, work{"a": long, "b": long})
		a, b, c, d := g.send("a"), g.send("b"), g.send("c"), g.send("d")
		require.Equal(t, 1.0, g.value(t, "smg_admission_queue_depth"))
		require.Equal(t, 2.0, g.value(t, "smg_admission_inflight"))

		<-d.over
		require.Equal(t, 429, d.status)
		require.Equal(t, "admission_queue_full", d.code())
		require.Contains(t, d.got.String(), "rate_limit_error")
		require.Zero(t, d.took, "at once")
		<-c.over
		require.Equal(t, 503, c.status)
		require.Equal(t, "admission_queue_timeout", c.code())
		require.Equal(t, time.Second, c.took)
		require.Zero(t, c.reads, "section 1: the body of a request that waits is not read")
		<-a.over
		<-b.over
		require.Equal(t, []int{200, 200}, []int{a.status, b.status})

		require.Equal(t, 2.0, g.value(t, "smg_http_rate_limit_total", "allowed"))
		require.Equal(t, 2.0, g.value(t, "smg_http_rate_limit_total", "rejected"))
		require.Equal(t, 1.0, g.value(t, "smg_admission_queue_rejected_total", "full"))
		require.Equal(t, 1.0, g.value(t, "smg_admission_queue_rejected_total", "timeout"))
		require.Equal(t, 1.0, g.value(t, "smg_admission_queue_wait_seconds", "timeout"))
		g.requireEmpty(t)
	})
}

// http-dataplane.md, section 11.1: "B admitted before C", and nobody overtakes, at whatever moment they come.
func TestAdmissionKeepsTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(t, AdmissionSettings{Requests: 1, Queue: 10}, work{"a": taking(2 * time.Second)})
		visits := []*visit{g.send("a"), g.send("b"), g.send("c")}
		time.Sleep(2*time.Second - 1)
		visits = append(visits, g.send("d")) // just before a permit comes back
		time.Sleep(time.Nanosecond)
		visits = append(visits, g.send("e")) // in the moment
		for _, v := range visits {
			<-v.over
			require.Equal(t, 200, v.status)
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e"}, g.order)
		require.Equal(t, 1, g.most)
		require.Equal(t, 4.0, g.value(t, "smg_admission_queue_wait_seconds", "admitted"))
		g.requireEmpty(t)
	})
}

// http-dataplane.md, section 11.1: "permits 1, queue-size 0, second request -> 429 with Retry-After: 2"; also with a rate.
func TestAdmissionWithoutAQueueRefusesAtOnce(t *testing.T) {
	for _, perSecond := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			g := gate(t, AdmissionSettings{Requests: 1, PerSecond: perSecond}, nil)
			first, second := g.send("a"), g.send("b")
			<-second.over
			require.Equal(t, 429, second.status)
			require.Equal(t, "2", second.head.Get("Retry-After"))
			require.Contains(t, second.got.String(), "queuing is disabled")
			require.Equal(t, 1.0, g.value(t, "smg_admission_queue_rejected_total", "full"), "telemetry.md, section 4.1")
			<-first.over
			g.requireEmpty(t)
		})
	}
}

// http-dataplane.md, section 11.1: "permits 1, rate 2/s, first request holds 5 s: second admitted after 0.5 s, two in flight then".
func TestAdmissionAtARateLetsMoreIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		five := taking(5 * time.Second)
		g := gate(t, AdmissionSettings{Requests: 1, Queue: 10, PerSecond: 2, Wait: 2 * time.Second}, work{"a": five, "b": five, "c": five})
		a, b, c := g.send("a"), g.send("b"), g.send("c")
		time.Sleep(500*time.Millisecond - 1)
		synctest.Wait()
		require.Equal(t, 1.0, g.value(t, "smg_admission_inflight"))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2.0, g.value(t, "smg_admission_inflight"))
		require.Equal(t, 1.0, g.value(t, "smg_admission_queue_depth"))
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 3.0, g.value(t, "smg_admission_inflight"), "whoever waits waits up to the limit of the queue")
		for _, v := range []*visit{a, b, c} {
			<-v.over
			require.Equal(t, 200, v.status)
		}
		time.Sleep(time.Hour)
		visits := []*visit{g.send("d"), g.send("e")}
		synctest.Wait()
		require.Equal(t, 1.0, g.value(t, "smg_admission_inflight"), "tokens beyond the capacity are lost")
		time.Sleep(time.Second - 1) // d gives its token back then, and e has one of the rate by then
		for _, v := range visits {
			<-v.over
		}
		g.requireEmpty(t)
	})
}

// http-dataplane.md, section 11.1: a token is given back by a response that ends; waiters wait up to the queue's limit, not less.
func TestAdmissionAtARateGivesUpOnlyAfterTheQueuesLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(t, AdmissionSettings{Requests: 1, Queue: 2, PerSecond: 1, Wait: 1500 * time.Millisecond}, work{"a": taking(time.Hour)})
		a, b, c := g.send("a"), g.send("b"), g.send("c")
		<-b.over
		require.Equal(t, []any{200, 2 * time.Second}, []any{b.status, b.took}, "one second for a token, one of work")
		<-c.over
		require.Equal(t, 503, c.status)
		require.Equal(t, 1500*time.Millisecond, c.took)
		<-a.over
		g.requireEmpty(t)
	})
}

// http-dataplane.md, section 11.1: "free a queued waiter as soon as its client disconnects"; a permit that it has got is given back.
func TestAdmissionForgetsClientsThatLeave(t *testing.T) {
	for _, perSecond := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			hour := taking(time.Hour)
			g := gate(t, AdmissionSettings{Requests: 1, Queue: 1, PerSecond: perSecond}, work{"a": hour})
			a, b := g.send("a"), g.send("b")
			b.leave()
			<-b.over
			require.Zero(t, b.status)
			require.Zero(t, b.took)
			require.Zero(t, b.watched())
			require.Equal(t, 1.0, testutil.ToFloat64(g.metrics.HTTP.ClientDisconnects("chat", telemetry.PhaseQueued)))
			require.Equal(t, 1.0, g.value(t, "smg_admission_queue_wait_seconds", "cancelled"))
			require.Zero(t, g.value(t, "smg_admission_queue_depth"))

			c := g.send("c")
			require.Zero(t, c.status, "the place is free again")
			d := g.send("d")
			require.Equal(t, 429, d.status)
			c.leave()
			for _, v := range []*visit{a, c, d} {
				<-v.over
			}
			g.requireEmpty(t)
			require.Equal(t, []string{"a"}, g.order)
		})
	}
}

// DESIGN, section 1: however a request ends, its permit comes back, once.
func TestAdmissionTakesThePermitBackHoweverARequestEnds(t *testing.T) {
	refusal := &pipeline.Error{Status: 400, Code: "invalid_json", Message: "no"}
	tests := map[string]struct {
		end    func(x *pipeline.Exchange) error
		status int
	}{
		"an answer":         {taking(time.Second), 200},
		"a refusal":         {func(*pipeline.Exchange) error { return refusal }, 400},
		"a mistake":         {func(*pipeline.Exchange) error { return errors.New("oops") }, 500},
		"no answer":         {func(*pipeline.Exchange) error { return nil }, 500},
		"a panic":           {func(*pipeline.Exchange) error { panic("boom") }, 500},
		"a cut stream":      {func(x *pipeline.Exchange) error { _ = taking(1)(x); return refusal }, 200},
		"a client's end":    {func(*pipeline.Exchange) error { return pipeline.ErrClientGone }, 0},
		"a panic in stream": {func(x *pipeline.Exchange) error { _ = taking(1)(x); panic("boom") }, 200},
	}
	for name, tt := range tests {
		for _, perSecond := range []int{0, 1} {
			t.Run(name+" at rate "+strconv.Itoa(perSecond), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := gate(t, AdmissionSettings{Requests: 1, Queue: 1, PerSecond: perSecond}, work{"a": tt.end})
					a, b := g.send("a"), g.send("b")
					<-a.over
					<-b.over
					require.Equal(t, tt.status, a.status)
					require.Equal(t, 200, b.status, "it got the permit")
					g.requireEmpty(t)
				})
			})
		}
	}
}

// http-dataplane.md, section 11.1: "until the last response byte": an answer that was held back for a retry is written late, and counts
// until then.
func TestAdmissionCountsTheWritingOfAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &pipeline.Error{Status: 503, Held: &pipeline.Answer{Status: 503, Body: []byte("slow")}}
		g := gate(t, AdmissionSettings{Requests: 1, Queue: 1}, work{"a": func(*pipeline.Exchange) error { return held }})
		a := &visit{caller: chat("X-Request-Id", "a"), over: make(chan struct{})}
		a.onWrite = func(*caller, []byte) { time.Sleep(3 * time.Second) }
		go func() {
			defer close(a.over)
			_ = g.Serve(a.caller)
		}()
		synctest.Wait()
		require.Equal(t, 1, g.limiter.permits.sample().held)
		<-a.over
		g.requireEmpty(t)
	})
}

// DESIGN, "Explaining": a rehearsal books nothing and waits for nobody.
func TestAdmissionLetsRehearsalsPass(t *testing.T) {
	l := NewLimiter(AdmissionSettings{Requests: 1, Wait: time.Minute}, telemetry.NewMetrics(telemetry.Options{}).Admission)
	require.True(t, l.permits.enter())
	x := &pipeline.Exchange{Client: chat(), DryRun: true}
	require.NoError(t, assembled(t, Admission(l), last(200, nil)).Run(x))
	require.EqualValues(t, 0, l.admitted.Load())
	require.Equal(t, admissionSample{held: 1}, l.permits.sample())
}

// cases.md, C38, and http-dataplane.md, section 11.1, under the race detector: requests that come, end, leave and time out all at once;
// the limit and the queue's size hold, and no permit is lost.
func TestAdmissionLosesNoPermitInAStorm(t *testing.T) {
	const limit, queue, clients, each = 3, 4, 16, 400
	for _, perSecond := range []int{0, 1 << 20} {
		m := telemetry.NewMetrics(telemetry.Options{})
		l := NewLimiter(AdmissionSettings{Requests: limit, Queue: queue, Wait: 50 * time.Microsecond, PerSecond: perSecond}, m.Admission)
		var running, served atomic.Int64
		chain := assembled(t, Admission(l), last(200, func(*pipeline.Exchange) {
			if n := running.Add(1); perSecond == 0 && n > limit {
				t.Errorf("%d requests run at once", n)
			}
			served.Add(1)
			running.Add(-1)
		}))
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				for i := range each {
					c := chat()
					if i%3 == 0 {
						go c.leave()
					}
					_ = chain.Serve(c)
					if n := l.permits.sample().waiting; n < 0 || n > queue {
						t.Errorf("%d requests wait", n)
					}
				}
			})
		}
		all.Wait()
		require.Zero(t, l.permits.sample())
		require.Equal(t, l.admitted.Load(), uint64(served.Load()))
		for range limit {
			require.True(t, l.permits.enter(), "all permits are there")
		}
		require.NotZero(t, served.Load())
	}
}

// DECISIONS 4: waiters divided by releases per second over the last 10 s, 1 to 60; 2 while unknown.
func TestRetryAfterIsHowLongTheQueueTakes(t *testing.T) {
	type note struct {
		after    time.Duration
		released uint64
	}
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	tests := []struct {
		name     string
		notes    []note
		at       time.Duration
		released uint64
		waiting  int
		want     time.Duration
	}{
		{"nothing is known", nil, 0, 5, 100, second(2)},
		{"too little is known", []note{{0, 0}}, second(0.9), 5, 100, second(2)},
		{"two a second", []note{{0, 10}, {second(1), 12}}, second(2), 14, 9, second(5)},
		{"less than a second", []note{{0, 0}}, second(1), 1000, 9, second(1)},
		{"nobody waits", []note{{0, 0}}, second(1), 1000, 0, second(1)},
		{"hours", []note{{0, 0}}, second(10), 1, 1000, second(60)},
		{"what is older than ten seconds is forgotten", []note{{0, 0}, {second(9), 1000}}, second(19), 1010, 10, second(10)},
		{"all that is known is old", []note{{0, 0}}, second(11), 1000, 10, second(2)},
		{"nothing has ended for long", []note{{0, 7}}, second(9.5), 7, 3, second(60)},
		{"nothing has ended for a moment", []note{{0, 7}}, second(2), 7, 3, second(2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p pace
			began := time.Now()
			for _, n := range tt.notes {
				p.note(began.Add(n.after), func() uint64 { return n.released })
			}
			require.Equal(t, tt.want, p.estimate(began.Add(tt.at), tt.waiting, tt.released))
		})
	}
	var p pace
	began := time.Now()
	for i := range 500 {
		p.note(began.Add(time.Duration(i)*100*time.Millisecond), func() uint64 { return uint64(i) })
	}
	require.Equal(t, second(5), p.estimate(began.Add(second(50)), 50, 500), "a sample a second reaches ten seconds back")
}

// DECISIONS 4, in the life of a limiter: one permit that is taken for a second each time.
func TestAdmissionSaysHowLongTheQueueTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(t, AdmissionSettings{Requests: 1, Queue: 10}, nil)
		var visits []*visit
		for range 11 {
			visits = append(visits, g.send(""))
		}
		require.Equal(t, "2", g.send("").head.Get("Retry-After"))
		time.Sleep(10500 * time.Millisecond)
		for range 10 {
			visits = append(visits, g.send(""))
		}
		require.Equal(t, "11", g.send("").head.Get("Retry-After"), "ten wait, and in the last 9.5 s of which something is known nine were let go")
		for _, v := range visits {
			<-v.over
		}
		g.requireEmpty(t)
	})
}

// DESIGN, section 5: no allocation while there are permits.
func TestAdmissionAllocatesNothingWhileThereArePermits(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	l := NewLimiter(AdmissionSettings{Requests: 8, Queue: 8, Wait: time.Second}, telemetry.NewMetrics(telemetry.Options{}).Admission)
	s := Admission(l)
	x := &pipeline.Exchange{DryRun: false, Client: chat()}
	require.Zero(t, testing.AllocsPerRun(1000, func() { _ = s.Handle(x, answered) }))
}

// answered stands for the rest of a chain that has answered.
func answered(*pipeline.Exchange) error { return pipeline.ErrClientGone }

// BenchmarkAdmission is what the stage costs while there are permits, alone and when all cores use it.
func BenchmarkAdmission(b *testing.B) {
	l := NewLimiter(AdmissionSettings{Requests: 4096, Queue: 100, Wait: time.Minute}, telemetry.NewMetrics(telemetry.Options{}).Admission)
	for name, s := range map[string]pipeline.Stage{
		"admission": Admission(l),
		"nothing": pipeline.StageFunc("nothing", pipeline.Contract{}, func(x *pipeline.Exchange, next pipeline.Next) error {
			return x.Conclude(next)
		}),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				x := &pipeline.Exchange{Client: chat()}
				for pb.Next() {
					_ = s.Handle(x, answered)
				}
			})
		})
	}
}
