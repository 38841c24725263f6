package stages

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// attempted is one attempt of a request that is played through in virtual time.
type attempted struct {
	worker int           // from 0
	at     time.Duration // since the request arrived
}

// reply is what an attempt ends with: the status of a worker's answer, with its Retry-After.
type reply struct {
	status     int
	retryAfter string
}

// play is the retry stage with the filters, in front of workers that reply as they are told, in turn; then with 200.
type play struct {
	settings RetrySettings
	replies  []reply
	pin      *policy.Pin // of the first worker, if not nil
	takes    time.Duration
	states   []string
	arrange  func(x *pipeline.Exchange, all []*workers.Worker) // before each attempt

	attempts []attempted
	metrics  *telemetry.Metrics
	all      []*workers.Worker
}

// run plays a request with so many workers.
func (p *play) run(t *testing.T, n int) *caller {
	t.Helper()
	registry := workers.NewRegistry()
	for i := range n {
		w := newWorker(t, "http://127.0.0.1:"+string(rune('1'+i)), "m1", strictly(false))
		state := "ready"
		if i < len(p.states) {
			state = p.states[i]
		}
		put(t, w, state)
		require.NoError(t, registry.Add(w))
		p.all = append(p.all, w)
	}
	p.metrics = telemetry.NewMetrics(telemetry.Options{})
	loads := workers.NewLoadMonitor(registry, workers.LoadSettings{Interval: time.Second}, nil)
	chain := assembled(t, given(pipeline.Body),
		pipeline.StageFunc("model", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Model}}, func(x *pipeline.Exchange, next pipeline.Next) error {
			x.Model, x.Asked = "m1", "m1"
			return next(x)
		}),
		Retry(p.settings, "chat", p.metrics), Candidates(registry), Available(), Breaker(), Overload(loads, p.metrics.Workers, false), Untried(),
		pipeline.StageFunc("attempt", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}, p.attempt))
	c := chat()
	_ = chain.Serve(c)
	return c
}

// attempt goes to the first candidate, or to the pin if that is one, and replies like forward: held back if retry says so.
func (p *play) attempt(x *pipeline.Exchange, _ pipeline.Next) error {
	w := x.Candidates.Members()[0]
	if p.pin != nil {
		p.pin.Worker = p.all[0]
		policy.Pinned.Set(x, *p.pin)
		if x.Candidates.Contains(p.all[0]) {
			w = p.all[0]
		}
	}
	if p.arrange != nil {
		p.arrange(x, p.all)
	}
	leg := x.Legs.Add(w, w.Type())
	x.Try(w)
	for i := range p.all {
		if p.all[i] == w {
			p.attempts = append(p.attempts, attempted{i, time.Since(x.Arrived)})
		}
	}
	time.Sleep(p.takes)
	r := reply{status: 200}
	if len(p.replies) >= len(p.attempts) {
		r = p.replies[len(p.attempts)-1]
	}
	leg.Status = r.status
	if !x.Judge.Hold(x, leg, r.status) {
		return x.WriteHead(r.status, 0, nil)
	}
	return &pipeline.Error{Status: r.status, Held: &pipeline.Answer{
		Status: r.status, Fields: []pipeline.Field{{Name: "Retry-After", Value: r.retryAfter}},
	}}
}

// steady are the default settings without chance.
func steady() RetrySettings {
	s := DefaultRetrySettings()
	s.Jitter = 0
	return s
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// http-dataplane.md, section 10, and DECISIONS 1, 32 and 56: which worker gets each attempt, and when.
func TestAttemptsComeWhenTheyShould(t *testing.T) {
	second := func(settings RetrySettings, max time.Duration) RetrySettings {
		settings.MaxBackoff = max
		return settings
	}
	deadline := func(d time.Duration) RetrySettings { s := steady(); s.Deadline = d; return s }
	busy := reply{503, ""}
	tests := []struct {
		name    string
		play    play
		workers int
		want    []attempted
		status  int
	}{
		{"defaults: 50, 75, 112 and 168 ms", play{replies: []reply{busy, busy, busy, busy, busy}}, 1, []attempted{
			{0, 0}, {0, ms(50)}, {0, ms(125)}, {0, ms(237)}, {0, ms(405)},
		}, 503},
		{"the same worker, after as long as it has asked for", play{replies: []reply{{503, "7"}}}, 1, []attempted{{0, 0}, {0, 7 * time.Second}}, 200},
		{"but never longer than the largest backoff", play{settings: second(steady(), ms(300)), replies: []reply{{429, "7"}}}, 1, []attempted{{0, 0}, {0, ms(300)}}, 200},
		{"a date", play{replies: []reply{{503, "Sat, 01 Jan 2000 00:00:09 GMT"}}}, 1, []attempted{{0, 0}, {0, 9 * time.Second}}, 200},
		{"a date that has passed", play{replies: []reply{{503, "Fri, 31 Dec 1999 23:59:59 GMT"}}}, 1, []attempted{{0, 0}, {0, ms(50)}}, 200},
		{"another worker is not kept waiting", play{replies: []reply{{503, "7"}}}, 2, []attempted{{0, 0}, {1, ms(50)}}, 200},
		{"when all were tried, the one that is ready first", play{replies: []reply{{503, "7"}, {503, "3"}}}, 2, []attempted{
			{0, 0}, {1, ms(50)}, {1, ms(3050)},
		}, 200},
		{"who has asked for nothing is ready", play{replies: []reply{{503, "7"}, busy}}, 2, []attempted{{0, 0}, {1, ms(50)}, {1, ms(125)}}, 200},
		{"the last that a worker has said holds", play{replies: []reply{{503, "7"}, {503, "1"}}}, 1, []attempted{
			{0, 0}, {0, 7 * time.Second}, {0, 8 * time.Second},
		}, 200},
		{"a worker that is not available is nobody to wait for", play{replies: []reply{{503, "2"}}, states: []string{"ready", "unhealthy"}}, 2, []attempted{
			{0, 0}, {0, 2 * time.Second},
		}, 200},
		{"a pin has a second chance", play{pin: &policy.Pin{}, replies: []reply{busy}}, 2, []attempted{{0, 0}, {0, ms(50)}}, 200},
		{"not while its worker has asked for more time", play{pin: &policy.Pin{}, replies: []reply{{503, "7"}}}, 2, []attempted{{0, 0}, {1, ms(50)}}, 200},
		{"a worker asked for by name is waited for", play{pin: &policy.Pin{Only: true}, replies: []reply{{503, "7"}}}, 2, []attempted{
			{0, 0}, {0, 7 * time.Second},
		}, 200},
		{"no attempt begins behind the deadline", play{settings: deadline(ms(130)), takes: ms(20), replies: []reply{busy, busy, busy}}, 1, []attempted{
			{0, 0}, {0, ms(70)},
		}, 503},
		{"nor is waited for what would be behind it", play{settings: deadline(5 * time.Second), replies: []reply{{503, "7"}}}, 1, []attempted{{0, 0}}, 503},
		{"a 500 goes to another worker", play{replies: []reply{{500, ""}}}, 2, []attempted{{0, 0}, {1, ms(50)}}, 200},
		{"a 500 of everyone ends it", play{replies: []reply{{500, ""}, {500, ""}}}, 2, []attempted{{0, 0}, {1, ms(50)}}, 500},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // it begins on 2000-01-01
				p := tt.play
				if p.settings.MaxAttempts == 0 {
					p.settings = steady()
				}
				c := p.run(t, tt.workers)
				require.Equal(t, tt.want, p.attempts)
				require.Equal(t, tt.status, c.status)
			})
		})
	}
}

// http-dataplane.md, section 10: "total elapsed about the backoff sum; worker not contacted".
func TestWaitingForAWorkerTakesTheSumOfTheBackoffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play{settings: steady(), states: []string{"open"}}
		began := time.Now()
		c := p.run(t, 1)
		require.Equal(t, ms(405), time.Since(began))
		require.Equal(t, 503, c.status)
		require.Equal(t, "no_available_workers", c.code())
		require.Empty(t, p.attempts)
	})
}

// DECISIONS 1 and 32: the other worker of a 500 has gone while the request waited for it; the 500 is the answer.
func TestA500IsNotTriedAgainWhenTheOtherWorkerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play{settings: steady(), replies: []reply{{500, ""}}}
		p.arrange = func(_ *pipeline.Exchange, all []*workers.Worker) {
			time.AfterFunc(ms(10), func() { all[1].SetStatus(workers.NotReady) })
		}
		c := p.run(t, 2)
		require.Equal(t, http.StatusInternalServerError, c.status)
		require.Equal(t, []attempted{{0, 0}}, p.attempts)
	})
}

// http-dataplane.md, section 10: the policy of a model overrides that of the flags.
func TestAModelHasItsOwnRetries(t *testing.T) {
	busy := reply{503, ""}
	own := func(attempts int, initial time.Duration) RetryOverride {
		return func(model string) *RetrySettings {
			s := steady()
			s.MaxAttempts, s.InitialBackoff = attempts, initial
			return map[string]*RetrySettings{"m1": &s}[model]
		}
	}
	none := func(string) *RetrySettings { return nil }
	tests := []struct {
		name string
		of   RetryOverride
		want []attempted
	}{
		{"none at all", own(1, ms(50)), []attempted{{0, 0}}},
		{"fewer, and later", own(2, ms(700)), []attempted{{0, 0}, {0, ms(700)}}},
		{"those of the flags, if it has none of its own", none, []attempted{{0, 0}, {0, ms(50)}, {0, ms(125)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := steady()
				s.MaxAttempts, s.ForModel = 3, tt.of
				p := play{settings: s, replies: []reply{busy, busy, busy}}
				require.Equal(t, 503, p.run(t, 1).status)
				require.Equal(t, tt.want, p.attempts)
			})
		})
	}
}

// http-dataplane.md, section 10: "a retry loop stops when the client disconnects (also during backoff)".
func TestABackoffEndsWhenTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := play{settings: steady(), replies: []reply{{503, "20"}}}
		var client *caller
		p.arrange = func(x *pipeline.Exchange, _ []*workers.Worker) {
			client = x.Client.(*caller)
			time.AfterFunc(3*time.Second, client.leave)
		}
		began := time.Now()
		c := p.run(t, 1)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Zero(t, c.status)
		require.Zero(t, c.watched())
		require.Len(t, p.attempts, 1)
	})
}
