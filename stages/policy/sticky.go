package policy

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// keyCap is how many requests of a key may be in flight with its worker before the next one is placed anew.
const keyCap = 2

// sessions are the pins of sticky sessions, one for each leg, model and routing key; all policies of a set share them.
type sessions struct {
	*pins
	branches    pinBranches
	rid, header prometheus.Counter // requests by the source of their key; nil: nobody counts
}

func newSessions(s *Settings) *sessions {
	log := telemetry.WithTarget(s.Log, "smg::policies::registry")
	counted := s.counted()
	return &sessions{
		pins: newPins(s, AssignDelegate, log), branches: newPinBranches(s),
		rid: counted.KeySource["rid"], header: counted.KeySource["header"],
	}
}

// over puts sticky sessions in front of a policy; nil sessions, and policies that know keys themselves, leave it as it is.
func (s *sessions) over(p Policy) Policy {
	switch p.(type) {
	case *manual, *consistentHashing:
		return p
	}
	if s == nil {
		return p
	}
	return &sticky{Policy: p, sessions: s}
}

// sticky sends the requests of a routing key to one worker and leaves those without a key to the policy. While that worker has two
// of the key's requests in flight, the next one is placed anew, and so is one whose worker is out: by the policy, which moves the key
// for good (delegate), or by another mode, from which the key comes back.
type sticky struct {
	Policy
	sessions *sessions
}

var (
	_ Kept     = (*sticky)(nil)
	_ Booked   = (*sticky)(nil)
	_ Reasoned = (*sticky)(nil)
)

// asked tells whether this attempt's worker was chosen by the policy behind the sessions.
var asked = pipeline.NewFact[bool]("policy_asked")

func (s *sticky) Select(x *pipeline.Exchange, among workers.List) int {
	asked.Set(x, false)
	if x.Key.Value == "" {
		return s.delegate(x, among)
	}
	s.sessions.countSource(x)
	i, how := s.place(x, among)
	how.count(x)
	s.sessions.show(x)
	s.tell(x, among, i, how)
	return i
}

// delegate lets the policy choose.
func (s *sticky) delegate(x *pipeline.Exchange, among workers.List) int {
	asked.Set(x, true)
	return s.Policy.Select(x, among)
}

func (s *sticky) place(x *pipeline.Exchange, among workers.List) (i int, how *decision) {
	branches := &s.sessions.branches
	if among.Len() == 0 {
		return -1, branches.nobody
	}
	k := pinKey{among.At(0).Type(), x.Model, x.Key.Value}
	shard := s.sessions.shard(k.key)
	shard.Lock()
	defer shard.Unlock()
	of := shard.pins[k]
	i = s.sessions.pins.place(of, among)
	if i < 0 {
		return s.vacant(x, among, shard, k)
	}
	s.sessions.touch(x, of)
	w := among.At(i)
	if w.KeyInFlight(k.key) < keyCap {
		explainPin(x, w)
		pinTo(x, w, false)
		return i, branches.hit
	}
	return s.respill(x, among, shard, k, w), branches.respill
}

// choose is the place of a worker for a key that needs one, by the policy or by another mode.
func (s *sticky) choose(x *pipeline.Exchange, among workers.List) int {
	if s.sessions.assign == AssignDelegate {
		return s.delegate(x, among)
	}
	return s.sessions.assign.choose(x, among, s.sessions.chance)
}

// respill places a request of a key whose worker has enough of them. The key moves if the other worker has less. The shard is locked.
func (s *sticky) respill(x *pipeline.Exchange, among workers.List, shard *pinShard, k pinKey, from *workers.Worker) int {
	i := s.choose(x, among)
	if i < 0 || !firstAttempt(x) {
		return i
	}
	if w := among.At(i); w == from || w.KeyInFlight(k.key) < keyCap {
		if w != from {
			s.sessions.lead(shard, k, w.URL())
		}
		pinTo(x, w, false)
	}
	return i
}

// vacant places a request of a key that has no worker here. The shard is locked.
func (s *sticky) vacant(x *pipeline.Exchange, among workers.List, shard *pinShard, k pinKey) (i int, how *decision) {
	how = s.sessions.branches.vacant
	if shard.pins[k] != nil {
		how = s.sessions.branches.miss
	}
	i = s.choose(x, among)
	if i < 0 || !firstAttempt(x) {
		return i, how
	}
	k.model, k.key = strings.Clone(k.model), strings.Clone(k.key) // they outlive the request
	if s.sessions.assign == AssignDelegate {
		s.sessions.lead(shard, k, among.At(i).URL())
	} else {
		s.sessions.append(shard, k, among.At(i).URL())
	}
	pinTo(x, among.At(i), false)
	return i, how
}

func (s *sessions) countSource(x *pipeline.Exchange) {
	c := s.header
	if x.Key.Source == pipeline.RIDKey {
		c = s.rid
	}
	if c != nil && !x.DryRun {
		c.Inc()
	}
}

// tell logs the decision.
func (s *sticky) tell(x *pipeline.Exchange, among workers.List, i int, how *decision) {
	log := s.sessions.log
	if x.DryRun || !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	source, chosen, leg := "header", "none", workers.Regular
	if x.Key.Source == pipeline.RIDKey {
		source = "rid"
	}
	if among.Len() > 0 {
		leg = among.At(0).Type()
	}
	if i >= 0 {
		chosen = among.At(i).URL()
	}
	log.LogAttrs(context.Background(), slog.LevelDebug, "Sticky routing decision",
		slog.String("source", source), slog.String("key", x.Model+"/"+leg.String()+"/"+x.Key.Value), slog.String("branch", how.name),
		slog.String("worker", chosen), slog.String("model_id", x.Model))
}

// Upkeep forgets the pins that nobody uses, and does what is due behind the sessions.
func (s *sticky) Upkeep(now time.Time) {
	s.sessions.sweep(now)
	if kept, ok := s.Policy.(Kept); ok {
		kept.Upkeep(now)
	}
}

// Ended tells the policy, if it was the one that chose.
func (s *sticky) Ended(x *pipeline.Exchange) {
	if booked, ok := s.Policy.(Booked); ok && asked.Get(x) {
		booked.Ended(x)
	}
}

// Reason is the policy's, if it was the one that chose nobody.
func (s *sticky) Reason(x *pipeline.Exchange) string {
	if r, ok := s.Policy.(Reasoned); ok && asked.Get(x) {
		return r.Reason(x)
	}
	return ""
}
