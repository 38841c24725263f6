package policy

import (
	"maps"
	"time"

	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// upkeep cuts the trees back that are over their limit, collects what removed workers have left, drops the trees of models that are
// gone, and publishes the sizes. Trees within bounds are not walked. It is not called twice at once.
func (x *prefixIndex) upkeep(now time.Time, m *telemetry.PolicyMetrics) {
	x.asked.Store(false)
	x.letGo(now)
	for name, t := range *x.trees.Load() {
		deserted := x.deserted(t)
		if excess := t.total.Load() - t.limit; excess > 0 || deserted {
			t.evict(excess, inUnits)
		}
		for range 16 { // more if other indexes leave no room
			if !x.memory.tight() || t.bytes.Load() <= 0 {
				break
			}
			t.evict(t.bytes.Load()/8+1, inBytes)
		}
		publish(m, name, t)
		if deserted {
			x.settle(name, t, m)
		}
	}
	if m != nil {
		m.IndexBytes.Set(float64(x.memory.used.Load()))
	}
}

// mourning is how long an index remembers that a worker was removed: longer than any request needs from its list of candidates to
// its choice.
const mourning = time.Minute

// letGo forgets removals that are long ago.
func (x *prefixIndex) letGo(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now.Sub(x.turned) >= mourning {
		x.turned = now
		x.removed = [2]map[*workers.Worker]struct{}{{}, x.removed[0]}
	}
}

// deserted tells whether a tree has dead tenants.
func (x *prefixIndex) deserted(t *tree) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(t.tenants.dying) > 0
}

// settle gives ids of dead tenants free, and drops the tree if nothing is in it and nobody has it.
func (x *prefixIndex) settle(name treeName, t *tree, m *telemetry.PolicyMetrics) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t.tenants.bury()
	if len(t.tenants.dying) > 0 || t.tenants.alive.Load() > 0 {
		return
	}
	now := maps.Clone(*x.trees.Load())
	delete(now, name)
	x.trees.Store(&now)
	unpublish(m, name)
}

// publish shows the size of a tree.
func publish(m *telemetry.PolicyMetrics, name treeName, t *tree) {
	if m == nil {
		return
	}
	tenants := t.tenants.alive.Load()
	if tenants == 0 {
		return
	}
	size, kind := m.TreeChars, "string"
	if name.tokens {
		size, kind = m.TreeTokens, "token"
	}
	size.WithLabelValues(name.model).Set(float64(t.total.Load()))
	m.TreeTenants.WithLabelValues(name.model, kind).Set(float64(tenants))
}

// unpublish removes the series of a tree that is gone.
func unpublish(m *telemetry.PolicyMetrics, name treeName) {
	if m == nil {
		return
	}
	size, kind := m.TreeChars, "string"
	if name.tokens {
		size, kind = m.TreeTokens, "token"
	}
	size.DeleteLabelValues(name.model)
	m.TreeTenants.DeleteLabelValues(name.model, kind)
}
