package workers

import (
	"maps"
	"slices"
)

// claim is a name that workers of a model want for it.
type claim struct {
	alias, model string
	workers      int // that make it
}

// Alias makes an additional name for a model. An alias that is the id of a served model has no effect meanwhile.
func (r *Registry) Alias(alias, canonical string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aliases[alias] = canonical
	r.publish(true, func(*published) {})
}

// christen adds the configured aliases of its model to the card of a worker that nobody knows yet.
func (r *Registry) christen(w *Worker) {
	if len(w.spec.Models) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &w.spec.Models[0] // what more cards say is shown, and not served
	for _, alias := range slices.Sorted(maps.Keys(r.aliases)) {
		if c.ID == r.aliases[alias] && alias != c.ID && !slices.Contains(c.Aliases, alias) {
			c.Aliases = append(c.Aliases, alias)
		}
	}
}

// claim counts the claims of a worker that comes or goes. changed is false if others of its model make the same ones: then a
// wave of registrations has nothing to work out.
func (r *Registry) claim(w *Worker, by int) (changed bool) {
	for _, alias := range w.spec.aliases() {
		i := slices.IndexFunc(r.claims, func(c claim) bool { return c.alias == alias && c.model == w.model })
		if i < 0 {
			i, changed = len(r.claims), true
			r.claims = append(r.claims, claim{alias: alias, model: w.model})
		}
		if r.claims[i].workers += by; r.claims[i].workers <= 0 {
			r.claims, changed = slices.Delete(r.claims, i, i+1), true
		}
	}
	return changed
}

// Resolve is the canonical id of a model, whatever name the client used for it. A name that is unknown comes back as it is.
func (r *Registry) Resolve(name string) (canonical string, known bool) {
	p := r.published.Load()
	if _, served := p.serving[name]; served {
		return name, true
	}
	if canonical, ok := p.aliases[name]; ok {
		return canonical, true
	}
	return name, false
}

func (r *Registry) realias(p *published) {
	p.aliases = map[string]string{}
	for _, c := range r.claims { // the first that claims a name keeps it
		p.alias(c.alias, c.model)
	}
	for alias, canonical := range r.aliases {
		p.alias(alias, canonical)
	}
}

// alias adds a name, unless it is a model's own, or taken, or its model is not served.
func (p *published) alias(alias, canonical string) {
	if alias == "" || alias == "unknown" { // what stands for a model that nobody has named
		return
	}
	_, isModel := p.serving[alias]
	_, isTaken := p.aliases[alias]
	if _, served := p.serving[canonical]; served && !isModel && !isTaken {
		p.aliases[alias] = canonical
	}
}
