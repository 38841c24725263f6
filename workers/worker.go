package workers

import (
	"log/slog"
	"sync/atomic"

	"github.com/smg-go/smg/telemetry"
)

// Worker is one registered engine. What it is never changes after it was made; how it fares is atomic, so that requests read
// it without a lock. A worker outlives its registration for as long as requests hold it.
type Worker struct {
	// What every choice looks at comes first: it fills one cache line.
	order      atomic.Uint64 // place among all registrations of its registry, from 1; 0 before
	slot       atomic.Int32
	status     atomic.Int32
	overloaded atomic.Bool
	cordoned   atomic.Bool
	report     atomic.Pointer[Report]
	traffic    *traffic
	breaker    *Breaker

	id       ID
	key      [2]uint64 // the id as numbers
	endpoint Endpoint
	spec     Spec
	model    string // "" for a worker that takes every model
	bearer   string // the Authorization of requests that bring none; "" if the worker has no key
	settings Settings
	revision uint64
	reached  bool // it comes from a registration that has just found its engine healthy

	owner  atomic.Pointer[Registry] // the registry that counts it; nil before and after its registration
	onTrip atomic.Pointer[func(w *Worker, from, to BreakerState)]

	series     atomic.Pointer[telemetry.WorkerSeries]
	attributes telemetry.Attributes

	shown       atomic.Pointer[[]byte] // see AppendView
	shownReport atomic.Pointer[encodedReport]

	tallied flags // what the registry has counted; its lock is held
	pools   []slot
}

// traffic is what changes with every request. It has its cache lines to itself, and a replacement of a registration goes on
// with the same one.
type traffic struct {
	_        [64]byte
	inFlight atomic.Int64
	sent     atomic.Int64
	keys     activeKeys
	_        [64]byte
}

// New makes a worker that is pending. It is not registered yet. The spec is copied and completed from its labels. The error is
// about the spec: a [*URLError] or a [*FieldError].
func New(spec Spec, s Settings) (*Worker, error) { return newWorker(NewID(), spec, s) }

// newWorker makes a worker with an id that was handed out before.
func newWorker(id ID, spec Spec, s Settings) (*Worker, error) {
	endpoint, err := ParseEndpoint(spec.URL)
	if err != nil {
		return nil, err
	}
	if err := spec.Overload.check(); err != nil {
		return nil, err
	}
	spec = spec.Clone()
	spec.URL, spec.ConnectionMode = endpoint.URL, endpoint.Mode
	if rank, ranked := endpoint.rank(); ranked {
		spec.DPBaseURL, spec.DPRank = endpoint.Base, &rank
	}
	spec.complete()
	return assembled(id, endpoint, spec, spec.modelID(), s), nil
}

// patched is a worker that differs from w in its spec alone, which has the same URL. Its labels say nothing of models and KV transfer any
// more: what they said at the registration stays.
func (w *Worker) patched(spec Spec, s Settings) *Worker {
	for _, label := range []string{labelKVConnector, labelKVRole, labelKVEngineID} {
		delete(spec.Labels, label)
	}
	return assembled(w.id, w.endpoint, spec, w.model, s)
}

// assembled makes a worker of a spec that is complete.
func assembled(id ID, endpoint Endpoint, spec Spec, model string, s Settings) *Worker {
	w := &Worker{
		id: id, key: id.words(), endpoint: endpoint, spec: spec, model: model,
		settings: spec.override(s), traffic: &traffic{},
	}
	if spec.APIKey != "" {
		w.bearer = "Bearer " + spec.APIKey
	}
	w.describe()
	w.breaker = newBreaker(w.settings.Breaker, w.breakerMoved)
	return w
}

// ID is the worker's id.
func (w *Worker) ID() ID { return w.id }

// URL is the worker's URL as registered, with the @rank of a data-parallel rank. It is unique in a registry.
func (w *Worker) URL() string { return w.endpoint.URL }

// Endpoint is where the worker is reached.
func (w *Worker) Endpoint() *Endpoint { return &w.endpoint }

// Spec is what the worker was registered with, completed by what the engine says of itself.
func (w *Worker) Spec() *Spec { return &w.spec }

// Model is the id of the model that the worker serves, "" if it takes every model.
func (w *Worker) Model() string { return w.model }

// Type is the part that the worker plays.
func (w *Worker) Type() Type { return w.spec.WorkerType }

// Mode is how the worker is spoken to.
func (w *Worker) Mode() Mode { return w.endpoint.Mode }

// Bearer is the Authorization field for a request to the worker that brings none of its own; "" if the worker has no key.
func (w *Worker) Bearer() string { return w.bearer }

// Revision counts the replacements of this registration, from 0.
func (w *Worker) Revision() uint64 { return w.revision }

// Settings are the gateway's settings with this worker's own on top. They do not change.
func (w *Worker) Settings() *Settings { return &w.settings }

// Outcome is what an answer with this status means for the worker's breaker.
func (w *Worker) Outcome(status int) Outcome { return w.settings.Statuses.Outcome(status) }

// String is the worker's URL; nothing else of it is shown, least of all its API key.
func (w *Worker) String() string { return w.URL() }

// GoString is String, for %#v.
func (w *Worker) GoString() string { return w.URL() }

// LogValue is the worker's URL.
func (w *Worker) LogValue() slog.Value { return slog.StringValue(w.URL()) }

// Breaker is the worker's circuit breaker.
func (w *Worker) Breaker() *Breaker { return w.breaker }

// InFlight is the number of requests that this gateway has sent to the worker and whose responses have not ended.
func (w *Worker) InFlight() int64 { return w.traffic.inFlight.Load() }

// Sent is the number of requests that this gateway has ever begun with the worker.
func (w *Worker) Sent() int64 { return w.traffic.sent.Load() }

// Series are the worker's counters for the metrics; nil if nobody has attached any.
func (w *Worker) Series() *telemetry.WorkerSeries { return w.series.Load() }

// AttachSeries gives the worker counters for the metrics.
func (w *Worker) AttachSeries(s *telemetry.WorkerSeries) { w.series.Store(s) }

// TraceAttributes are what the span of every request to the worker says of it.
func (w *Worker) TraceAttributes() *telemetry.Attributes { return &w.attributes }

func (w *Worker) describe() {
	w.attributes.Address(w.endpoint.Dial)
	w.attributes.Text("smg.worker", w.URL())
	w.attributes.Text("smg.worker.type", w.Type().String())
}

// Begin counts one more request in flight.
func (w *Worker) Begin() {
	w.traffic.inFlight.Add(1)
	w.traffic.sent.Add(1)
}

// End takes back what Begin has counted; whoever begins ends once.
func (w *Worker) End() { w.traffic.inFlight.Add(-1) }

// BeginKey counts one more request in flight with a routing key, beside [Worker.Begin]. Who begins ends once.
func (w *Worker) BeginKey(key string) { w.traffic.keys.add(key) }

// EndKey takes back what BeginKey has counted.
func (w *Worker) EndKey(key string) { w.traffic.keys.drop(key) }

// KeyInFlight is the number of requests with a routing key that are in flight with the worker.
func (w *Worker) KeyInFlight(key string) int { return w.traffic.keys.count(key) }

// ActiveKeys is the number of distinct routing keys that are in flight with the worker.
func (w *Worker) ActiveKeys() int64 { return w.traffic.keys.distinct.Load() }

// Status is the worker's state now.
func (w *Worker) Status() Status { return Status(w.status.Load()) }

// Ready tells whether the worker's state lets it be chosen.
func (w *Worker) Ready() bool { return w.Status() == Ready }

// Cordoned tells whether the worker gets no new request although its state would let it: who discovered it wants it no more, and is
// about to remove it or to change its mind. See [Registry.Cordon].
func (w *Worker) Cordoned() bool { return w.cordoned.Load() }

// Candidate tells whether the worker's state lets it be chosen, and nobody has cordoned it.
func (w *Worker) Candidate() bool { return w.Ready() && !w.Cordoned() }

// Draining tells whether the worker is about to be removed.
func (w *Worker) Draining() bool { return w.Status() == Draining }

// Overloaded tells whether the worker's last load report was over a ceiling.
func (w *Worker) Overloaded() bool { return w.overloaded.Load() }

// Available tells whether the worker may be chosen: ready and not cordoned, its breaker admits a request, and it is not overloaded.
func (w *Worker) Available() bool { return w.Candidate() && w.breaker.Admits() && !w.Overloaded() }

// SetStatus moves the worker to a state and tells its registry. A draining worker never leaves that state.
func (w *Worker) SetStatus(to Status) { w.transit(to, func(Status) bool { return true }) }

// advance moves the worker to a state, but only from another one. moved is false if it was not in that.
func (w *Worker) advance(from, to Status) (moved bool) {
	return w.transit(to, func(now Status) bool { return now == from })
}

func (w *Worker) transit(to Status, allowed func(now Status) bool) (moved bool) {
	if r := w.owner.Load(); r != nil {
		return r.transit(w, to, allowed)
	}
	_, moved = w.moveTo(to, allowed)
	w.recount() // it may have been registered meanwhile
	return moved
}

// moveTo changes the state; moved is false when it was that already, is draining, or may not move.
func (w *Worker) moveTo(to Status, allowed func(now Status) bool) (from Status, moved bool) {
	for {
		from = w.Status()
		if from == to || from == Draining || !allowed(from) {
			return from, false
		}
		if w.status.CompareAndSwap(int32(from), int32(to)) {
			if from == Ready {
				w.forgetLoad()
			}
			return from, true
		}
	}
}

// SetOverloaded records the verdict of a load report.
func (w *Worker) SetOverloaded(over bool) {
	if w.overloaded.Swap(over) != over {
		w.recount()
	}
}

// forgetLoad drops what load reports have said of the worker: it is not polled any more. Who calls it recounts.
func (w *Worker) forgetLoad() {
	w.report.Store(nil)
	w.overloaded.Store(false)
}

// OnBreaker asks for a call after each change of the worker's breaker; there is one listener.
func (w *Worker) OnBreaker(f func(w *Worker, from, to BreakerState)) { w.onTrip.Store(&f) }

func (w *Worker) breakerMoved(from, to BreakerState) {
	w.recount()
	if f := w.onTrip.Load(); f != nil {
		(*f)(w, from, to)
	}
}

func (w *Worker) recount() {
	if r := w.owner.Load(); r != nil {
		r.recount(w)
	}
}

// flags are the reasons for which the worker may not be chosen now. An open breaker stays flagged while it is half-open.
func (w *Worker) flags() flags {
	var set flags
	switch {
	case !w.Ready():
		set |= 1 << notReady
	case w.Cordoned():
		set |= 1<<notReady | 1<<cordoned
	}
	if BreakerState(w.breaker.state.Load()) != BreakerClosed {
		set |= 1 << tripped
	}
	if w.Overloaded() {
		set |= 1 << overloaded
	}
	return set
}
