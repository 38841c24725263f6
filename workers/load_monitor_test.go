package workers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fleet is a monitor in a bubble of its own time, with engines that a test plays.
type fleet struct {
	*LoadMonitor
	t      *testing.T
	begun  time.Time
	answer func(req *http.Request) (*http.Response, error)
	log    lines

	mu    sync.Mutex
	asked map[string][]time.Duration // by host and path: when
}

// loads is a body of /v1/loads with one rank.
func loads(waiting int, usage float64) string {
	return fmt.Sprintf(`{"timestamp":"t","loads":[{"dp_rank":0,"num_waiting_reqs":%d,"token_usage":%g}]}`, waiting, usage)
}

// newFleet makes a monitor whose engines all answer with loads, until the test says otherwise.
func newFleet(t *testing.T, s LoadSettings, ws ...*Worker) *fleet {
	t.Helper()
	if s.Interval == 0 {
		s.Interval = 10 * time.Second
	}
	f := &fleet{t: t, begun: time.Now(), asked: map[string][]time.Duration{}}
	f.answer = func(*http.Request) (*http.Response, error) { return status(200, loads(1, 0.5)), nil }
	f.LoadMonitor = NewLoadMonitor(NewRegistry(ws...), s, slog.New(slog.NewTextHandler(&f.log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	f.clients.http1.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
		f.mu.Lock()
		key := req.URL.Host + strings.TrimSuffix(req.URL.Path, "/v1/loads")
		f.asked[key] = append(f.asked[key], time.Since(f.begun))
		answer := f.answer
		f.mu.Unlock()
		return answer(req)
	})
	return f
}

func (f *fleet) answers(a func(*http.Request) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = a
}

func (f *fleet) says(code int, body string) {
	f.answers(func(*http.Request) (*http.Response, error) { return status(code, body), nil })
}

// start runs the monitor until stop is called.
func (f *fleet) start() (stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, func() {}) }()
	synctest.Wait()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
}

// wait lets time pass, and what is due then happen.
func (f *fleet) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (f *fleet) times(host string) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Duration(nil), f.asked[host]...)
}

// polledEvery is the spec of a worker of model m that asks for an interval; a negative one asks for none.
func polledEvery(url string, seconds int) Spec {
	s := serving(url, "m")
	if seconds >= 0 {
		s.LoadMonitorIntervalSecs = new(uint32(seconds))
	}
	return s
}

// of is a spec of a runtime.
func of(r Runtime, url string) Spec {
	s := serving(url, "m")
	s.RuntimeType = r
	return s
}

// load-signals.md, section 4: at once, then at the interval of the group; 4.3, second Check
func TestIntervalOfAGroup(t *testing.T) {
	tests := []struct {
		name     string
		interval time.Duration
		specs    []Spec
		want     time.Duration // of the first worker
	}{
		{"the gateway's, if nobody asks for one", 10 * time.Second, []Spec{polledEvery("http://a", -1), polledEvery("http://b", -1)}, 10 * time.Second},
		{"an override counts alone", time.Second, []Spec{polledEvery("http://a", -1), polledEvery("http://b", 5)}, 5 * time.Second},
		{"the shortest of two overrides", time.Second, []Spec{polledEvery("http://a", 5), polledEvery("http://b", 2)}, 2 * time.Second},
		{"an override of 0 is 1", 10 * time.Second, []Spec{polledEvery("http://a", 0)}, time.Second},
		{"another model is another group", 10 * time.Second, []Spec{polledEvery("http://a", -1), {URL: "http://b", LoadMonitorIntervalSecs: new(uint32(2))}}, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, LoadSettings{Interval: tt.interval})
				for _, s := range tt.specs {
					add(t, f.registry, s)
				}
				require.Equal(t, tt.interval, f.Interval())
				require.Equal(t, "loads", f.Name())
				stop := f.start()
				f.wait(6 * tt.want)
				stop()
				polls := f.times("a")
				require.Zero(t, polls[0], "the first poll is at once")
				require.LessOrEqual(t, polls[1], tt.want, "the second is at some time within the interval")
				require.Greater(t, len(polls), 5)
				for i := 2; i < len(polls); i++ {
					require.Equal(t, tt.want, polls[i]-polls[i-1])
				}
			})
		})
	}
}

// load-signals.md, section 4: a group follows those who ask for an interval as they come and go
func TestIntervalFollowsTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{Interval: 600 * time.Second})
		add(t, f.registry, polledEvery("http://a", -1))
		stop := f.start()
		f.wait(601 * time.Second)
		before := len(f.times("a"))
		hasty := add(t, f.registry, polledEvery("http://b", 2))
		f.wait(21 * time.Second)
		require.InDelta(t, 10, len(f.times("a"))-before, 1, "from the next two seconds on")
		f.registry.Remove(hasty)
		before = len(f.times("a"))
		f.wait(590 * time.Second)
		require.InDelta(t, 1.5, len(f.times("a"))-before, 0.5, "in the rounds of the longer interval again")

		slow := add(t, f.registry, polledEvery("http://c", 6000))
		f.wait(601 * time.Second)
		before = len(f.times("a"))
		f.wait(1800 * time.Second)
		require.Equal(t, before, len(f.times("a")))
		slow.SetStatus(NotReady)
		f.wait(601 * time.Second)
		require.Greater(t, len(f.times("a")), before, "not only when the longer interval is over")
		stop()
	})
}

// load-signals.md, sections 3.2 and 4: only ready workers over HTTP that are no providers
func TestWhoIsPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		pending := add(t, f.registry, serving("http://pending", "m"))
		pending.SetStatus(NotReady)
		add(t, f.registry, serving("grpc://grpc", "m"))
		add(t, f.registry, of(External, "http://provider"))
		stop := f.start()
		f.wait(3 * time.Second)
		require.Empty(t, f.asked)
		pending.SetStatus(Ready)
		synctest.Wait()
		require.Equal(t, secs(3), f.times("pending"), "at once")
		late := add(t, f.registry, serving("http://late", "m"))
		synctest.Wait()
		require.Equal(t, secs(3), f.times("late"), "at once")
		late.SetStatus(Draining)
		f.wait(time.Minute)
		require.Equal(t, secs(3), f.times("late"))
		require.Nil(t, late.Report())
		stop()
		require.Nil(t, pending.Report(), "nobody would renew it")
	})
}

// load-signals.md, section 4.3, first Check
func TestWhenPollingIsOn(t *testing.T) {
	tests := []struct {
		name    string
		wanted  func() bool
		ceiling int64
		polled  bool
	}{
		{"by default", nil, 0, true},
		{"when somebody reads loads", func() bool { return true }, 0, true},
		{"when nobody does", func() bool { return false }, 0, false},
		{"when a worker is protected", func() bool { return false }, 8, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := DefaultSettings()
				settings.Overload.WaitingRequests = tt.ceiling
				protected, err := New(serving("http://protected", "m"), settings)
				require.NoError(t, err)
				protected.SetStatus(Ready)
				f := newFleet(t, LoadSettings{Wanted: tt.wanted}, protected, made(t, serving("http://other", "m")), made(t, serving("http://elsewhere", "n")))
				stop := f.start()
				f.wait(time.Minute)
				stop()
				require.Equal(t, tt.polled, len(f.times("protected")) > 0)
				require.Equal(t, tt.polled, len(f.times("other")) > 0, "of the same group")
				require.Equal(t, tt.polled && tt.ceiling == 0, len(f.times("elsewhere")) > 0)
			})
		})
	}
}

// load-signals.md, section 4.3: the condition is evaluated each tick; policies come and go with their models
func TestDemandForLoadsMayComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wanted atomic.Bool
		f := newFleet(t, LoadSettings{Wanted: wanted.Load})
		w := add(t, f.registry, serving("http://w", "m"))
		stop := f.start()
		f.wait(25 * time.Second)
		require.Empty(t, f.asked)
		wanted.Store(true)
		f.wait(10 * time.Second)
		require.NotNil(t, w.Report())
		wanted.Store(false)
		f.wait(10 * time.Second)
		require.Nil(t, w.Report(), "an old report is none")
		require.Len(t, f.times("w"), 1)
		stop()
	})
}

// load-signals.md, section 4.3: answers at t0, fails at t1, answers again at t2
func TestAFailedPollLeavesNoReport(t *testing.T) {
	failures := []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		result PollResult
	}{
		{"an error", func(*http.Request) (*http.Response, error) { return status(500, ""), nil }, PollError},
		{"a key that is refused", func(*http.Request) (*http.Response, error) { return status(401, ""), nil }, PollError},
		{"no connection", func(*http.Request) (*http.Response, error) { return nil, errors.New("refused") }, PollError},
		{"no answer", hang, PollTimeout},
		{"garbage", func(*http.Request) (*http.Response, error) { return status(200, "<html>"), nil }, PollError},
		{"no loads", func(*http.Request) (*http.Response, error) { return status(200, `{"loads":[]}`), nil }, PollEmpty},
		{"a load that tells nothing", func(*http.Request) (*http.Response, error) {
			return status(200, `{"loads":[{"token_usage":"full"}]}`), nil
		}, PollEmpty},
	}
	for _, tt := range failures {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				settings := DefaultSettings()
				settings.Overload.WaitingRequests = 8
				w, err := New(serving("http://w", "m"), settings)
				require.NoError(t, err)
				w.SetStatus(Ready)
				f := newFleet(t, LoadSettings{}, w)
				var last atomic.Int64
				f.OnPoll(func(p Poll) { last.Store(int64(p.Result)) })
				f.says(200, loads(8, 0.1))
				stop := f.start()
				require.EqualValues(t, 8, w.Report().Waiting)
				require.True(t, w.Overloaded())
				require.Equal(t, 1, f.registry.Pool("m", Regular, HTTP).Overloaded())

				f.answers(tt.answer)
				f.wait(16 * time.Second)
				require.EqualValues(t, tt.result, last.Load())
				require.Nil(t, w.Report())
				require.False(t, w.Overloaded())
				require.Zero(t, f.registry.Pool("m", Regular, HTTP).Overloaded())

				f.says(200, loads(7, 0.1))
				f.wait(16 * time.Second)
				require.EqualValues(t, PollOK, last.Load())
				require.EqualValues(t, 7, w.Report().Waiting)
				require.False(t, w.Overloaded())
				stop()
				require.Contains(t, f.log.String(), `level=WARN msg="load of the worker is not known" worker=http://w`)
				require.Equal(t, 1, strings.Count(f.log.String(), "level=WARN"))
				require.Contains(t, f.log.String(), `level=INFO msg="load of the worker is known again"`)
				require.Contains(t, f.log.String(), `level=INFO msg="worker is overloaded" worker=http://w waiting=8`)
				require.Contains(t, f.log.String(), `level=INFO msg="worker is not overloaded any more: its load is not known"`)
			})
		})
	}
}

func hang(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

// load-signals.md, section 6: no hysteresis, and what is asked is what is told
func TestVerdictsFollowReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := DefaultSettings()
		settings.Overload.TokenUsage = 0.9
		spec := serving("http://w/base", "m")
		spec.APIKey = "k1"
		w, err := New(spec, settings)
		require.NoError(t, err)
		w.SetStatus(Ready)
		f := newFleet(t, LoadSettings{}, w)
		f.answers(func(req *http.Request) (*http.Response, error) {
			require.Equal(t, "/base/v1/loads?include=core,disagg,queues,memory", req.URL.RequestURI())
			require.Equal(t, "Bearer k1", req.Header.Get("Authorization"))
			return status(200, loads(0, 0.9)), nil
		})
		stop := f.start()
		require.True(t, w.Overloaded())
		for _, usage := range []float64{0.89, 0.95, 0.1, 1} {
			f.says(200, loads(0, usage))
			f.wait(10 * time.Second)
			require.Equal(t, usage >= 0.9, w.Overloaded(), usage)
		}
		stop()
		require.False(t, w.Overloaded())
		require.Contains(t, f.log.String(), `level=WARN msg="load monitoring ends, overload verdicts are dropped" workers=1`)
	})
}

// load-signals.md, sections 4.1 and 4.2, 6: removing a worker, and one that leaves Ready
func TestWhatIsKnownOfAWorkerGoesWithIt(t *testing.T) {
	leaves := []struct {
		name string
		do   func(r *Registry, w *Worker)
	}{
		{"it is removed", func(r *Registry, w *Worker) { r.Remove(w) }},
		{"it is ill", func(_ *Registry, w *Worker) { w.SetStatus(NotReady) }},
		{"it drains", func(_ *Registry, w *Worker) { w.SetStatus(Draining) }},
		{"it is ill and well again", func(_ *Registry, w *Worker) { w.SetStatus(NotReady); w.SetStatus(Ready) }},
	}
	for _, tt := range leaves {
		for _, flying := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a poll in flight: %v", tt.name, flying), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					settings := DefaultSettings()
					settings.Overload.WaitingRequests = 1
					w, err := New(serving("http://w", "m"), settings)
					require.NoError(t, err)
					w.SetStatus(Ready)
					f := newFleet(t, LoadSettings{}, w, made(t, serving("http://other", "m")))
					stop := f.start()
					require.True(t, w.Overloaded())
					pool := func() List { return f.registry.Pool("m", Regular, HTTP) }
					require.Equal(t, 1, pool().Overloaded())
					answered := make(chan struct{})
					f.answers(func(req *http.Request) (*http.Response, error) {
						if req.URL.Host == "w" {
							<-answered
						}
						return status(200, loads(9, 0.5)), nil
					})
					if flying {
						f.wait(20 * time.Second)
					}
					f.answers(hang) // what is asked from now on says nothing
					tt.do(f.registry, w)
					require.Nil(t, w.Report())
					require.False(t, w.Overloaded())
					require.Zero(t, pool().Overloaded())
					close(answered)
					synctest.Wait()
					require.Nil(t, w.Report(), "a late result is thrown away")
					require.False(t, w.Overloaded())
					require.Zero(t, pool().Overloaded())
					stop()
				})
			})
		}
	}
}

// load-signals.md, section 4.2: a report older than three intervals is none, also while the engine is being asked
func TestAnOldReportIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{Interval: time.Second})
		w := add(t, f.registry, of(VLLM, "http://w"))
		stop := f.start()
		f.wait(1500 * time.Millisecond)
		f.answers(hang)
		f.wait(2 * time.Second)
		require.NotNil(t, w.Report(), "the poll has not ended")
		f.wait(2500 * time.Millisecond)
		require.Nil(t, w.Report())
		require.Contains(t, f.log.String(), "load report is too old")
		f.answers(func(*http.Request) (*http.Response, error) { return status(200, loads(1, 0.5)), nil })
		f.wait(10 * time.Second)
		require.NotNil(t, w.Report())
		stop()
	})
}

// load-signals.md, section 4.3, last Check; the fleet of the second row has more engines that hang than polls may be in flight
func TestAHangingWorkerDelaysNobody(t *testing.T) {
	for _, hanging := range []int{1, 3 * maxPolls} {
		t.Run(fmt.Sprint(hanging), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, LoadSettings{})
				f.answers(func(req *http.Request) (*http.Response, error) {
					if strings.HasPrefix(req.URL.Host, "hangs") {
						return hang(req)
					}
					return status(200, loads(1, 0.5)), nil
				})
				for i := range hanging {
					add(t, f.registry, of(SGLang, fmt.Sprintf("http://hangs%d", i)))
				}
				var healthy []*Worker
				for i := range 20 {
					healthy = append(healthy, add(t, f.registry, serving(fmt.Sprintf("http://w%d", i), "m")))
				}
				stop := f.start()
				f.wait(5 * time.Second) // the first polls are all due at once
				for range 60 {
					f.wait(time.Second)
					for _, w := range healthy {
						require.LessOrEqual(t, time.Since(w.Report().Received), 10*time.Second+500*time.Millisecond)
					}
				}
				stop()
			})
		})
	}
}

// load-signals.md, sections 4 and 9: ranks of one engine are asked once, and each gets its own entry
func TestRanksOfAnEngineAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		f.says(200, twoRanks)
		zero, one, two := add(t, f.registry, of(VLLM, "http://w@0")), add(t, f.registry, of(VLLM, "http://w@1")), add(t, f.registry, of(VLLM, "http://w@2"))
		whole := add(t, f.registry, of(VLLM, "http://w"))
		stop := f.start()
		require.Len(t, f.times("w"), 1)
		require.EqualValues(t, 1, zero.Report().Waiting)
		require.EqualValues(t, 2, one.Report().Waiting)
		require.Nil(t, two.Report(), "a rank that the engine does not have")
		require.EqualValues(t, 3, whole.Report().Waiting)

		f.registry.Remove(whole)
		f.registry.Remove(zero)
		f.says(200, `{"loads":[{"dp_rank":1,"num_waiting_reqs":7}]}`)
		f.wait(10 * time.Second)
		require.EqualValues(t, 7, one.Report().Waiting)
		require.Nil(t, zero.Report())
		f.answers(func(req *http.Request) (*http.Response, error) {
			if req.URL.Path == "/metrics" {
				return status(200, "vllm:kv_cache_usage_perc 0.5\n"), nil
			}
			return status(404, ""), nil
		})
		f.wait(10 * time.Second)
		require.Nil(t, one.Report(), "a page that sums ranks up says nothing of one")
		stop()
	})
}

// A rank that comes while its engine is being asked is asked for as soon as that is over.
func TestARankThatComesLateIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		f.answers(func(*http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return status(200, twoRanks), nil
		})
		add(t, f.registry, serving("http://w@0", "m"))
		stop := f.start()
		f.wait(time.Second)
		late := add(t, f.registry, serving("http://w@1", "m"))
		f.wait(3 * time.Second)
		require.Equal(t, secs(0, 2), f.times("w"))
		require.EqualValues(t, 2, late.Report().Waiting)
		stop()
	})
}

// Run may be called again after it has ended, as the runtime does after a reload.
func TestLoadMonitorMayRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		w := add(t, f.registry, serving("http://w", "m"))
		for run := range 3 {
			stop := f.start()
			require.Len(t, f.times("w"), run+1)
			require.NotNil(t, w.Report())
			stop()
			require.Nil(t, w.Report())
		}
		f.answers(hang)
		stop := f.start()
		stop() // in less time than a poll takes
		require.Zero(t, time.Since(f.begun))
	})
}

// load-signals.md, section 4.1: a replacement is another registration
func TestAReplacementIsPolledAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, LoadSettings{})
		f.says(404, "")
		w := add(t, f.registry, serving("http://w", "m"))
		stop := f.start()
		f.wait(time.Minute)
		require.Len(t, f.times("w"), 1)
		f.says(200, loads(1, 0.5))
		f.WorkerReplaced(w, revised(w, nil))
		synctest.Wait()
		require.Len(t, f.times("w"), 2)
		stop()
	})
}

// DECISIONS 45: a report is used although a number of it cannot be; telemetry.md, section 7.5: that is logged once, until it is over.
func TestNumbersThatCannotBeAreIgnoredAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := DefaultSettings()
		settings.Overload.WaitingRequests = 8
		w, err := New(serving("http://w", "m"), settings)
		require.NoError(t, err)
		w.SetStatus(Ready)
		f := newFleet(t, LoadSettings{}, w)
		var results, polls, ignored atomic.Int64
		f.OnPoll(func(p Poll) {
			results.Add(int64(p.Result))
			polls.Add(1)
			ignored.Add(int64(len(p.Ignored.Names())))
		})
		f.says(200, `{"loads":[{"num_waiting_reqs":1e300,"token_usage":0.5,"gen_throughput":"x"}]}`)
		stop := f.start()
		f.wait(31 * time.Second)
		require.Equal(t, 0.5, w.Report().Usage)
		require.True(t, w.Report().Vague)
		require.False(t, w.Overloaded(), "of what waits there is no verdict")
		require.Zero(t, results.Load(), "each poll was ok")
		require.Equal(t, 2*polls.Load(), ignored.Load(), "each poll counts both")
		f.says(200, loads(1, 0.1))
		f.wait(10 * time.Second)
		require.False(t, w.Report().Vague)
		f.says(200, `{"loads":[{"num_waiting_reqs":0,"token_usage":57}]}`)
		f.wait(20 * time.Second)
		stop()
		const said = `msg="numbers of the worker's load report cannot be, they are ignored" worker=http://w fields=`
		for _, fields := range []string{"num_waiting_reqs,gen_throughput", "token_usage"} {
			require.Equal(t, 1, strings.Count(f.log.String(), "level=WARN "+said+fields+"\n"), f.log.String())
			require.Contains(t, f.log.String(), "level=DEBUG "+said+fields+"\n")
		}
	})
}
