package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// quick is a cadence for tests that wait for a condition.
var quick = Startup{Interval: 5 * time.Millisecond, Timeout: time.Minute}

func enrollerOf(t *testing.T, s Startup, log *slog.Logger) *Enroller {
	t.Helper()
	e := NewEnroller(NewRegistry(), DefaultSettings(), s, log)
	t.Cleanup(e.Close)
	return e
}

// unreachable is an address at which nobody listens.
func unreachable(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

// lines is a log that is read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// workers.md section 12
func TestAddMakesAReadyWorker(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	e := enrollerOf(t, DefaultStartup(), nil)
	var heard diary
	e.registry.Listen(&heard)
	spec := NewSpec(engine.URL + "/")
	spec.Labels = map[string]string{"tp_size": "mine"}
	w, err := e.Add(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, []string{"added " + engine.URL + " pending", engine.URL + " pending>ready"}, heard.lines, "listeners know it before it is ready")
	require.Equal(t, "m", w.Model())
	require.Equal(t, SGLang, w.Spec().RuntimeType)
	require.Equal(t, "mine", w.Spec().Labels["tp_size"], "the user's labels lie on top")
	require.Equal(t, uint32(4096), w.Spec().Models[0].ContextLength)
	require.NotContains(t, w.Spec().Labels, "api_key")
	require.Equal(t, w, e.registry.Pool("m", Regular, HTTP).At(0))

	_, err = e.Add(t.Context(), spec)
	exists, ok := errors.AsType[*ExistsError](err)
	require.True(t, ok)
	require.Equal(t, w, exists.Holder)
}

// workers.md section 14: an explicit runtime is not looked into
func TestExplicitRuntimeIsNotDetected(t *testing.T) {
	engine := startEngine(t, map[string]page{"/health": ok(""), "/v1/models": ok(`{"data":[{"id":"m","owned_by":"sglang"}]}`), "/version": ok(`{"version":"1"}`)})
	spec := NewSpec(engine.URL)
	spec.RuntimeType = VLLM
	w, err := enrollerOf(t, quick, nil).Add(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, VLLM, w.Spec().RuntimeType)
	require.Equal(t, map[string]string{"served_model_name": "m", "version": "1"}, w.Spec().Labels)
}

// workers.md section 3: every --model-alias adds its alias to the card
func TestConfiguredAliasesAreOnTheCard(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	tests := []struct {
		name, spec string
		want       []string
	}{
		{"a card made from labels", `{`, []string{"a", "b"}},
		{"a card with an alias of its own", `{"models":[{"id":"m","aliases":["own"]}],`, []string{"own", "a", "b"}},
		{"a card that has it already", `{"models":[{"id":"m","aliases":["b"]}],`, []string{"b", "a"}},
		{"a card of another model", `{"models":[{"id":"other"}],`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := enrollerOf(t, quick, nil)
			e.registry.Alias("b", "m")
			e.registry.Alias("a", "m")
			e.registry.Alias("c", "n")
			spec, err := ParseSpec([]byte(tt.spec + `"url":"` + engine.URL + `"}`))
			require.NoError(t, err)
			given := spec.Clone()
			w, err := e.Add(t.Context(), spec)
			require.NoError(t, err)
			require.Equal(t, tt.want, w.Spec().Models[0].Aliases)
			require.Equal(t, given, spec, "the caller's spec is the caller's")
			canonical, known := e.registry.Resolve("a")
			require.Equal(t, tt.want != nil, known)
			if known {
				require.Equal(t, "m", canonical)
			}
			require.Equal(t, tt.want, patched(t, e, w.ID(), `{"priority":9}`).Spec().Models[0].Aliases, "a patch keeps them, once")
		})
	}
}

// workers.md section 14.4
func TestEngineWithoutModelsTakesEveryModel(t *testing.T) {
	engine := startEngine(t, map[string]page{"/health": ok("")})
	var log lines
	e := enrollerOf(t, quick, slog.New(slog.NewTextHandler(&log, nil)))
	w, err := e.Add(t.Context(), NewSpec(engine.URL))
	require.NoError(t, err)
	require.Equal(t, Generic, w.Spec().RuntimeType)
	require.Empty(t, w.Model())
	require.Contains(t, log.String(), "engine of unknown kind")
	require.Contains(t, log.String(), "names no model")
}

// workers.md section 18, capture.md section 3
func TestReservationIsSeenUntilTheWorkerIsThere(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	engine.set("/health", page{503, ""})
	e := enrollerOf(t, quick, nil)
	spec := NewSpec(engine.URL)
	spec.APIKey = "hidden"
	id, err := e.Reserve(spec)
	require.NoError(t, err)

	v, ok := e.Describe(id)
	require.True(t, ok)
	require.NotNil(t, v.JobStatus)
	job := fmt.Sprintf(`{"job_type":"AddWorker","worker_url":"%s","status":"%s","message":null,"timestamp":%d}`, engine.URL, v.JobStatus.Status, v.JobStatus.Timestamp)
	require.JSONEq(t, `{"id":"`+id.String()+`","url":"`+engine.URL+`","worker_type":"regular","connection_mode":"http","runtime_type":"unspecified","priority":50,
		"cost":1,"max_connection_attempts":20,"is_healthy":false,"status":"pending","load":0,"http2":false,"job_status":`+job+`}`, shown(t, v))
	require.Zero(t, e.registry.Len(), "it is not listed")
	require.EqualError(t, e.Remove(id), "Worker "+id.String()+" not found", "a reserved id is no live worker")

	for _, again := range []string{engine.URL, engine.URL + "/"} {
		_, err = e.Reserve(NewSpec(again))
		require.EqualError(t, err, "Worker creation already in progress for URL '"+engine.URL+"' with ID "+id.String()+". Poll GET /workers/"+id.String()+".")
	}
	eventually(t, "processing", func() bool { v, _ := e.Describe(id); return v.JobStatus != nil && v.JobStatus.Status == "processing" })

	engine.set("/health", page{200, ""})
	eventually(t, "ready without a job", func() bool {
		v, ok := e.Describe(id)
		require.True(t, ok, "the id is known all the time")
		return v.Status == Ready && v.JobStatus == nil
	})
	_, err = e.Reserve(NewSpec(engine.URL))
	require.ErrorContains(t, err, "Worker already exists at URL '"+engine.URL+"' with ID "+id.String())
}

// workers.md sections 2 and 18: the reason is in the log, the id is gone
func TestFailedRegistrationLeavesNothing(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	over, err := ParseSpec([]byte(`{"url":"` + engine.URL + `","overload":{"waiting_requests":0},"api_key":"hidden"}`))
	require.NoError(t, err)
	external := NewSpec(engine.URL)
	external.RuntimeType = External
	tests := []struct {
		name   string
		spec   Spec
		reason string
	}{
		{"out of range", over, "overload.waiting_requests"},
		{"nobody there", NewSpec(unreachable(t)), "not up within 20ms: GET /health: dial tcp"},
		{"gRPC, so far", NewSpec("grpc://127.0.0.1:1"), "workers over grpc are not supported"},
		{"a provider, so far", external, "external workers are not supported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log lines
			e := enrollerOf(t, Startup{Interval: 10 * time.Millisecond, Timeout: 20 * time.Millisecond}, slog.New(slog.NewTextHandler(&log, nil)))
			id, err := e.Reserve(tt.spec)
			require.NoError(t, err)
			eventually(t, "gone", func() bool { _, ok := e.Describe(id); return !ok })
			eventually(t, "logged", func() bool {
				return bytes.Contains([]byte(log.String()), []byte("level=WARN msg=\"worker not registered\""))
			})
			require.Contains(t, log.String(), tt.reason)
			require.NotContains(t, log.String(), "level=ERROR", "it is told once")
			require.NotContains(t, log.String(), "hidden")
			require.Zero(t, e.registry.Len())
			again, err := e.Reserve(tt.spec)
			require.NoError(t, err, "the address is free again")
			require.NotEqual(t, id, again)
		})
	}
	_, err = enrollerOf(t, quick, nil).Reserve(NewSpec("HTTP://h:1"))
	require.ErrorContains(t, err, "Invalid value for field 'worker_url'")
}

// workers.md section 18: a job for its address is shown with a live worker
func TestFailureIsToldAtTheAddress(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	e := enrollerOf(t, quick, nil)
	w, err := e.Add(t.Context(), NewSpec(engine.URL))
	require.NoError(t, err)
	_, err = e.Add(t.Context(), NewSpec("grpc"+engine.URL[len("http"):]))
	require.Error(t, err)
	v, ok := e.Describe(w.ID())
	require.True(t, ok)
	require.Equal(t, "failed", v.JobStatus.Status)
	require.Equal(t, "workers over grpc are not supported", *v.JobStatus.Message)
	require.Equal(t, Ready, v.Status)
}

// workers.md section 12; time is the test's own
func TestStartupCadence(t *testing.T) {
	tests := []struct {
		name          string
		startup       Startup
		upAt, answers time.Duration // when the engine is up, and how long it takes to answer before that
		probes        []time.Duration
		over          time.Duration // when the registration is over
		fails         bool
	}{
		{"an engine that is up is registered at once", DefaultStartup(), 0, 0, []time.Duration{0}, 0, false},
		{"nobody listens", Startup{0, 2 * time.Second, 10 * time.Second}, time.Hour, 0, secs(0, 2, 4, 6, 8), 10 * time.Second, true},
		{"the delay comes before the first probe", Startup{3 * time.Second, 2 * time.Second, 10 * time.Second}, 0, 0, secs(3), 3 * time.Second, false},
		{"an engine that comes up later", Startup{0, 2 * time.Second, time.Minute}, 7 * time.Second, 0, secs(0, 2, 4, 6, 8), 8 * time.Second, false},
		{"slow probes do not overlap", Startup{0, 2 * time.Second, 12 * time.Second}, time.Hour, 3 * time.Second, secs(0, 3, 6, 9), 12 * time.Second, true},
		{"a hanging engine is asked for 5 s each time", Startup{0, 2 * time.Second, 10 * time.Second}, time.Hour, time.Hour, secs(0, 5), 10 * time.Second, true},
		{"one probe is made however short the time", Startup{0, 30 * time.Second, time.Millisecond}, 0, 0, secs(0), 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEnroller(NewRegistry(), DefaultSettings(), tt.startup, nil)
				defer e.Close()
				begun := time.Now()
				var probes []time.Duration
				e.clients.http1.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/health" {
						probes = append(probes, time.Since(begun))
					}
					if time.Since(begun) >= tt.upAt {
						return status(200, `{"data":[{"id":"m","owned_by":"vllm"}]}`), nil
					}
					if err := pause(r.Context(), tt.answers); err != nil {
						return nil, err
					}
					return nil, errors.New("connection refused")
				})
				_, err := e.Add(t.Context(), NewSpec("http://w:1"))
				require.Equal(t, tt.fails, err != nil, "%v", err)
				require.Equal(t, tt.probes, probes)
				require.Equal(t, tt.over, time.Since(begun))
			})
		})
	}
}

func secs(s ...int) []time.Duration {
	var all []time.Duration
	for _, n := range s {
		all = append(all, time.Duration(n)*time.Second)
	}
	return all
}

// workers.md section 12, steps L2 and L3; time is the test's own
func TestEngineThatIsHealthyButStillLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
		defer e.Close()
		begun := time.Now()
		e.clients.http1.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/health":
				return status(200, ""), nil
			case r.URL.Path == "/v1/models" && time.Since(begun) > 5*time.Second:
				return status(200, `{"data":[{"id":"m","owned_by":"vllm"}]}`), nil
			case r.URL.Path == "/version" && time.Since(begun) > 5*time.Second:
				return nil, errors.New("connection reset") // metadata is asked for three times, then done without
			}
			return status(503, ""), nil
		})
		w, err := e.Add(t.Context(), NewSpec("http://w:1"))
		require.NoError(t, err)
		require.Equal(t, "m", w.Model())
		require.Equal(t, 8*time.Second, time.Since(begun), "detection at 0, 1, 3 and 6 s, metadata 2 s later")
	})
}

// workers.md section 11: registrations that wait do not keep others from asking
func TestProbesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), Startup{0, 30 * time.Second, time.Hour}, nil)
		var now, most atomic.Int64
		e.clients.http1.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == "up:1" {
				return status(200, `{"data":[{"id":"m","owned_by":"vllm"}]}`), nil
			}
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		for i := range 250 {
			_, err := e.Reserve(NewSpec(fmt.Sprintf("http://black-hole-%d:1", i)))
			require.NoError(t, err)
		}
		synctest.Wait()
		require.EqualValues(t, DefaultJobSettings().Concurrency, now.Load())
		begun := time.Now()
		_, err := e.Add(t.Context(), NewSpec("http://up:1"))
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begun), 10*time.Second)
		require.EqualValues(t, DefaultJobSettings().Concurrency, most.Load())
		e.Close()
		require.Zero(t, now.Load())
		_, err = e.Reserve(NewSpec("http://w:1"))
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestAddEndsWithItsContext(t *testing.T) {
	engine := startEngine(t, map[string]page{"/health": {503, ""}})
	var log lines
	e := enrollerOf(t, DefaultStartup(), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := e.Add(ctx, NewSpec(engine.URL)); done <- err }()
	eventually(t, "probed", func() bool { return len(engine.requests()) > 0 })
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.Empty(t, log.String(), "a gateway that stops does not complain of its workers")
}

func TestCloseEndsAnAddInProgress(t *testing.T) {
	engine := startEngine(t, map[string]page{"/health": {503, ""}})
	e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
	done := make(chan error)
	go func() { _, err := e.Add(context.Background(), NewSpec(engine.URL)); done <- err }()
	eventually(t, "probed", func() bool { return len(engine.requests()) > 0 })
	go e.Close()
	require.ErrorIs(t, <-done, context.Canceled)
	e.Close()
}

// workers.md sections 17 and 18, capture.md section 3; time is the test's own
func TestRemovalDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		e := NewEnroller(NewRegistry(), DefaultSettings(), quick, slog.New(slog.NewTextHandler(&log, nil)))
		defer e.Close()
		w := add(t, e.registry, NewSpec("http://w:1"))
		w.Begin()
		begun := time.Now()
		require.NoError(t, e.Remove(w.ID()))
		synctest.Wait()
		require.Equal(t, Draining, w.Status())
		v, ok := e.Describe(w.ID())
		require.True(t, ok)
		require.Equal(t, JobStatus{"RemoveWorker", "http://w:1", "processing", nil, begun.Unix()}, *v.JobStatus)
		require.Equal(t, Draining, v.Status)
		require.EqualValues(t, 1, v.Load)
		require.Contains(t, log.String(), "Draining 1 worker(s) for 5s before removal")

		time.Sleep(3 * time.Second)
		require.NoError(t, e.Remove(w.ID()), "a second removal changes nothing")
		_, err := e.Reserve(NewSpec("http://w:1"))
		require.ErrorContains(t, err, "Worker already exists", "it is there until it is gone")
		time.Sleep(2*time.Second - 1)
		synctest.Wait()
		require.Equal(t, 1, e.registry.Len())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Zero(t, e.registry.Len())
		_, ok = e.Describe(w.ID())
		require.False(t, ok)
		require.EqualError(t, e.Remove(w.ID()), "Worker "+w.ID().String()+" not found")
		require.EqualValues(t, 1, w.InFlight(), "a request that was in flight goes on")
	})
}

// workers.md section 17
func TestRemovalAtOnce(t *testing.T) {
	e := enrollerOf(t, quick, nil)
	for _, from := range []Status{Pending, NotReady, Failed} {
		w, err := New(NewSpec("http://w:1"), DefaultSettings())
		require.NoError(t, err)
		w.SetStatus(from)
		require.NoError(t, e.registry.Add(w))
		require.NoError(t, e.Remove(w.ID()))
		eventually(t, "gone from "+from.String(), func() bool { return e.registry.Len() == 0 })
	}
	s := NewSpec("http://w:1")
	s.Health = &HealthSpec{DrainSettleSecs: new(uint32(0))}
	w := add(t, e.registry, s)
	require.NoError(t, e.Remove(w.ID()))
	eventually(t, "a window of 0 does not wait", func() bool { return e.registry.Len() == 0 })
}

// workers.md section 17: shutdown does not wait for a drain
func TestCloseDoesNotWaitForDrains(t *testing.T) {
	e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil)
	s := NewSpec("http://w:1")
	s.Health = &HealthSpec{DrainSettleSecs: new(uint32(3600))}
	w := add(t, e.registry, s)
	require.NoError(t, e.Remove(w.ID()))
	eventually(t, "draining", w.Draining)
	e.Close()
	require.Equal(t, 1, e.registry.Len())
	require.ErrorIs(t, e.Remove(w.ID()), ErrClosed)
}
