package policy

import (
	"log/slog"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// Manual remembers for each routing key which worker it was given, and where it goes while that one is out: two workers at most. A
// key comes back to the first when that is available again, and new workers move no key. A new key is given a worker by
// s.Assignment, at random unless it says otherwise; so is a request without a key, and nothing is remembered.
//
// The key is the X-SMG-Routing-Key header, whatever other names routing keys may have; under sticky sessions the rid of the body
// comes first. Pins live in this process; one that was not used for s.MaxIdle is forgotten. A choice for a known key costs two
// look-ups under a short lock, however many workers there are.
func Manual(s Settings, log *slog.Logger) Policy {
	log = telemetry.WithTarget(log, "smg::policies::manual")
	return &manual{pins: newPins(&s, AssignRandom, log), branches: newPinBranches(&s)}
}

type manual struct {
	stateless // Forget too: a worker that comes back under its URL finds its keys
	*pins
	branches pinBranches
}

// pinBranches are the ways in which manual and sticky sessions decide.
type pinBranches struct{ hit, miss, vacant, respill, keyless, nobody *decision }

func newPinBranches(s *Settings) pinBranches {
	counters := s.counted().Manual
	return pinBranches{
		hit: newDecision(counters, "occupied_hit"), miss: newDecision(counters, "occupied_miss"), vacant: newDecision(counters, "vacant"),
		respill: newDecision(counters, "cap_respill"), keyless: newDecision(counters, "no_routing_id"), nobody: newDecision(counters, "no_healthy_workers"),
	}
}

var (
	_ Policy = (*manual)(nil)
	_ Kept   = (*manual)(nil)
)

func (*manual) Name() string { return "manual" }

// Upkeep forgets the pins that nobody uses.
func (m *manual) Upkeep(now time.Time) { m.sweep(now) }

func (m *manual) Select(x *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		m.branches.nobody.count(x)
		return -1
	}
	key := manualKey(x)
	if key == "" {
		m.branches.keyless.count(x)
		return m.assign.choose(x, among, m.chance)
	}
	i, how := m.keyed(x, among, pinKey{leg: among.At(0).Type(), key: key}, &m.branches)
	how.count(x)
	m.show(x)
	return i
}

// keyed follows the pin of a key, or gives it another worker.
func (p *pins) keyed(x *pipeline.Exchange, among workers.List, k pinKey, branches *pinBranches) (i int, how *decision) {
	s := p.shard(k.key)
	s.Lock()
	defer s.Unlock()
	of := s.pins[k]
	if i = p.place(of, among); i >= 0 {
		p.touch(x, of)
		explainPin(x, among.At(i))
		pinTo(x, among.At(i), false)
		return i, branches.hit
	}
	how = branches.vacant
	if of != nil {
		how = branches.miss
	}
	i = p.assign.choose(x, among, p.chance)
	if firstAttempt(x) {
		p.append(s, k, among.At(i).URL())
		pinTo(x, among.At(i), false)
	}
	return i, how
}

// explainPin rates the worker that a key is pinned to: nobody else was looked at.
func explainPin(x *pipeline.Exchange, w *workers.Worker) {
	if x.Explain != nil {
		x.Explain.Rate(w, 0, pipeline.Part{Name: "pinned", Value: 1})
	}
}

// manualKey is the key that manual knows a request by; "" if it has none.
func manualKey(x *pipeline.Exchange) string {
	if x.Key.Source == pipeline.RIDKey {
		return x.Key.Value
	}
	if x.Client == nil { // a program that chooses without one has set the key itself
		return x.Key.Header()
	}
	if key := header(x, keyHeader); validKey(key) {
		return key
	}
	return ""
}
