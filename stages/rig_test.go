package stages

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// patience is how long a test waits for a condition before it gives up: long, since nothing is asserted about time.
const patience = 20 * time.Second

// rig is the whole chain of an inference route, in front of real engines.
type rig struct {
	*pipeline.Chain
	metrics  *telemetry.Metrics
	registry *workers.Registry
	loads    *workers.LoadMonitor // does not run: tests put workers into states themselves
	policies *policy.Set
	demand   *pipeline.Demand
	log      *lines
	engines  []*engine.Running
	workers  []*workers.Worker
	settings rigging
	limiter  *Limiter
}

// rigging is what a test may want otherwise.
type rigging struct {
	policy    string
	policies  policy.Settings
	path      string
	kind      Kind
	retry     RetrySettings
	body      BodySettings
	buffering Buffering // the shared parts are filled in
	required  bool      // of Models
	fallback  bool      // of Overload
	worker    workers.Settings
	admission AdmissionSettings
	forward   forward.Settings
	level     slog.Level
	engine    engine.Config
	states    []string // of the workers, see put; fewer than workers: the rest are ready
}

func defaultRigging() rigging {
	s := rigging{
		policy: "round_robin", path: chatPath, kind: Chat, retry: DefaultRetrySettings(), worker: workers.DefaultSettings(),
		admission: AdmissionSettings{Requests: 64, Queue: 1, Wait: patience},
		body:      BodySettings{MaxBytes: 1 << 20}, buffering: Buffering{Retries: true, RetriedBytes: 1 << 20}, level: slog.LevelDebug,
	}
	s.retry.InitialBackoff = time.Millisecond
	return s
}

// newRig starts n engines with a ready worker for each, and assembles the chain. configure may be nil.
func newRig(t testing.TB, n int, configure func(*rigging)) *rig {
	t.Helper()
	s := defaultRigging()
	if configure != nil {
		configure(&s)
	}
	r := &rig{metrics: telemetry.NewMetrics(telemetry.Options{}), registry: workers.NewRegistry(), demand: &pipeline.Demand{}, log: &lines{}, settings: s}
	log, err := telemetry.NewLogger(telemetry.LogOptions{Level: s.level, JSON: true, Stdout: r.log, Env: func(string) string { return "" }})
	require.NoError(t, err)
	r.policies, err = policy.NewSet(s.policy, s.policies, r.demand, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	r.registry.Listen(r.policies)
	r.loads = workers.NewLoadMonitor(r.registry, workers.LoadSettings{Interval: 10 * time.Second}, nil)
	for i := range n {
		r.engines = append(r.engines, engine.Start(t, s.engine))
		state := "ready"
		if i < len(s.states) {
			state = s.states[i]
		}
		r.register(t, newWorker(t, r.engines[i].URL, "m1", s.worker), state)
	}
	r.Chain = r.assemble(t, log.Target(telemetry.Target))
	return r
}

func (r *rig) register(t testing.TB, w *workers.Worker, state string) {
	t.Helper()
	put(t, w, state)
	w.AttachSeries(r.metrics.Workers.Add(w.URL()))
	require.NoError(t, r.registry.Add(w))
	r.workers = append(r.workers, w)
}

func newWorker(t testing.TB, url, model string, s workers.Settings) *workers.Worker {
	t.Helper()
	spec := workers.NewSpec(url)
	spec.Labels = map[string]string{"model_id": model}
	w, err := workers.New(spec, s)
	require.NoError(t, err)
	return w
}

// put brings a worker into a state: ready, pending, unhealthy, failed, draining, overloaded (and ready), open or half-open (the
// breaker of a ready worker).
func put(t testing.TB, w *workers.Worker, state string) {
	t.Helper()
	statuses := map[string]workers.Status{
		"pending": workers.Pending, "unhealthy": workers.NotReady, "failed": workers.Failed, "draining": workers.Draining,
	}
	if status, ok := statuses[state]; ok {
		w.SetStatus(status)
		return
	}
	w.SetStatus(workers.Ready)
	switch state {
	case "ready":
	case "overloaded":
		w.SetOverloaded(true)
	case "open":
		trip(w)
		require.Equal(t, workers.BreakerOpen, w.Breaker().State())
	case "half-open":
		trip(w)
		require.Eventually(t, func() bool { return w.Breaker().State() == workers.BreakerHalfOpen }, patience, time.Millisecond)
	default:
		t.Fatalf("no such state: %s", state)
	}
}

func trip(w *workers.Worker) {
	for range w.Settings().Breaker.FailureThreshold {
		w.Breaker().Failure()
	}
}

func (r *rig) assemble(t testing.TB, log *slog.Logger) *pipeline.Chain {
	t.Helper()
	s := &r.settings
	buffering := s.buffering
	buffering.Registry, buffering.Demand, buffering.Metrics = r.registry, r.demand, r.metrics
	s.forward.Metrics = r.metrics
	transport := forward.NewTransport(forward.Options{OnResend: r.metrics.Router.SendRetries("http").Inc, OnConnection: r.metrics.Upstream.Connection})
	t.Cleanup(transport.CloseIdleConnections)
	endpoint := telemetry.EndpointOf(s.path)
	r.limiter = NewLimiter(s.admission, r.metrics.Admission)
	chain, err := pipeline.Assemble("POST "+s.path,
		RequestID([]string{"x-request-id", "x-correlation-id", "x-trace-id", "request-id"}),
		HTTPMetrics(s.path, r.metrics),
		AccessLog(log, false),
		PayloadLimit(s.body.MaxBytes),
		Admission(r.limiter),
		Buffer(&buffering, s.kind),
		Body(s.body, s.kind),
		Model(&Models{Registry: r.registry, Required: s.required}, s.kind),
		Prompt(r.demand, s.kind),
		s.routingKey(),
		Account(endpoint, r.metrics),
		Retry(s.retry, endpoint, r.metrics),
		Candidates(r.registry),
		Available(),
		Breaker(),
		Overload(r.loads, r.metrics.Workers, s.fallback),
		Untried(),
		Policy(r.policies, r.metrics),
		Dispatch(10*time.Second, r.metrics.Workers.Sheds(telemetry.ShedDispatch)),
		InFlight(),
		forward.To(transport, Forwarding(s.forward, s.kind)),
	)
	require.NoError(t, err)
	return chain
}

func (s *rigging) routingKey() pipeline.Stage {
	headers := []string{"X-SMG-Routing-Key"}
	if s.policies.Sticky {
		return SessionKey(headers, s.kind)
	}
	return RoutingKey(headers)
}

// edited changes the chain, as a program that builds on it would.
func (r *rig) edited(t testing.TB, edit func(*pipeline.Chain) (*pipeline.Chain, error)) {
	t.Helper()
	chain, err := edit(r.Chain)
	require.NoError(t, err)
	r.Chain = chain
}

// ask takes a client through the chain. The client is what it was given, for one line tests.
func (r *rig) ask(c *caller) *caller {
	_ = r.Serve(c)
	return c
}

// posts are the inference requests that the i-th engine got.
func (r *rig) posts(i int) []engine.Request {
	all := r.engines[i].Requests()
	return slices.DeleteFunc(all, func(q engine.Request) bool { return q.Method != "POST" })
}

// asked is how many inference requests each engine got.
func (r *rig) asked() []int {
	counts := make([]int, len(r.engines))
	for i := range r.engines {
		counts[i] = len(r.posts(i))
	}
	return counts
}

// requireQuiet: nothing is in flight, nowhere, and nobody has a permit of admission or waits for one.
func (r *rig) requireQuiet(t testing.TB) {
	t.Helper()
	for i, w := range r.workers {
		require.Zero(t, w.InFlight(), "in flight with worker %d", i)
	}
	require.Zero(t, r.metrics.Inflight.Len(), "in flight in the gateway")
	require.Zero(t, r.limiter.permits.sample(), "permits held, and requests that wait for one")
}

// counted is every series of smg's own that is not 0, without its prefix: "name{values of labels}" with the value; of a histogram
// the count. Workers are w1, w2, ... there.
func (r *rig) counted(t testing.TB) map[string]int {
	t.Helper()
	families, err := r.metrics.Registry().Gather()
	require.NoError(t, err)
	all := map[string]int{}
	for _, f := range families {
		name, own := strings.CutPrefix(f.GetName(), "smg_")
		if !own || name == "build_info" || strings.HasPrefix(name, "runtime_") || name == "stream_backpressure_seconds_total" { // that is a time
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, r.named(l.GetValue()))
			}
			n := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if n != 0 {
				all[name+"{"+strings.Join(labels, " ")+"}"] = int(n)
			}
		}
	}
	return all
}

func (r *rig) named(label string) string {
	for i, w := range r.workers {
		if w.URL() == label {
			return "w" + strconv.Itoa(i+1)
		}
	}
	return label
}

// count is one of counted.
func (r *rig) count(t testing.TB, series string) int { return r.counted(t)[series] }

// script writes counted down, a line for each.
func script(counted map[string]int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		b.WriteString(name + " " + strconv.Itoa(counted[name]) + "\n")
	}
	return b.String()
}

// lines collects log output.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// records are the lines, parsed.
func (l *lines) records(t testing.TB) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for line := range bytes.Lines(l.buf.Bytes()) {
		record := map[string]any{}
		require.NoError(t, json.Unmarshal(line, &record), "%s", line)
		all = append(all, record)
	}
	return all
}

// at is a pointer to a number, for faults.
func at(n int) *int { return &n }

// strict are settings of workers whose breaker opens at the first failure, and stays open unless it is to be half-open at once.
func strict(s *workers.Settings, halfOpen bool) {
	s.Breaker = workers.BreakerSettings{FailureThreshold: 1, SuccessThreshold: 1, Timeout: time.Hour}
	if halfOpen {
		s.Breaker.Timeout = time.Nanosecond
	}
}

// strictly are the default settings with a breaker as in strict.
func strictly(halfOpen bool) workers.Settings {
	s := workers.DefaultSettings()
	strict(&s, halfOpen)
	return s
}
