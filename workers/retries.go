package workers

import (
	"maps"
	"slices"
)

// Retries is what a worker's spec says of the retries of its model, "" for workers that take every model: of the worker that was
// registered last with any of it. What a worker has said that has left holds on while nobody else says anything, until the model's last
// worker has left. nil: nobody says anything.
func (r *Registry) Retries(model string) *ResilienceSpec { return r.published.Load().retries[model] }

// Retried tells whether the workers of some model ask for more than one attempt at a request, whatever the gateway's own settings are.
func (r *Registry) Retried() bool {
	for _, s := range r.published.Load().retries {
		if s.MaxRetries != nil && *s.MaxRetries > 1 && !(s.DisableRetry != nil && *s.DisableRetry) {
			return true
		}
	}
	return false
}

// retryRule is what a worker says of the retries of its model.
type retryRule struct {
	spec   *ResilienceSpec
	setter ID // the zero ID if the worker has left
}

// retries tells whether the spec says anything of retries.
func (s *ResilienceSpec) retries() bool {
	return s != nil && (s.MaxRetries != nil || s.InitialBackoffMs != nil || s.MaxBackoffMs != nil || s.BackoffMultiplier != nil ||
		s.JitterFactor != nil || s.DisableRetry != nil)
}

// adopt takes over what a worker that comes, or comes in the place of another one, says of retries. The lock is held.
func (r *Registry) adopt(p *published, was, now *Worker) {
	moved := was != nil && was.model != now.model
	if moved {
		r.bequeath(p, was)
	}
	said, same := now.spec.Resilience.retries(), was != nil && !moved
	if said && same && was.spec.Resilience == now.spec.Resilience {
		return // no new word: it keeps its place among those of others
	}
	if same {
		r.rules[now.model] = without(r.rules[now.model], now.id)
	}
	if said {
		r.rules[now.model] = append(without(r.rules[now.model], ID{}), retryRule{now.spec.Resilience, now.id})
	}
	r.rule(p, now.model)
}

// bequeath takes a worker out of those that say something of the retries of its model. If it was the only one, its word stays as long as
// the model is served. The lock is held.
func (r *Registry) bequeath(p *published, w *Worker) {
	switch rules := r.rules[w.model]; {
	case !p.serves(w.model):
		delete(r.rules, w.model)
	case len(rules) == 1 && rules[0].setter == w.id:
		rules[0].setter = ID{}
	default:
		r.rules[w.model] = without(rules, w.id)
	}
	r.rule(p, w.model)
}

func without(rules []retryRule, setter ID) []retryRule {
	return slices.DeleteFunc(rules, func(rule retryRule) bool { return rule.setter == setter })
}

// rule publishes the last word on the retries of a model. The lock is held.
func (r *Registry) rule(p *published, model string) {
	var last *ResilienceSpec
	if rules := r.rules[model]; len(rules) > 0 {
		last = rules[len(rules)-1].spec
	} else {
		delete(r.rules, model)
	}
	if p.retries[model] == last {
		return
	}
	p.retries = maps.Clone(p.retries)
	if last == nil {
		delete(p.retries, model)
		return
	}
	if p.retries == nil {
		p.retries = map[string]*ResilienceSpec{}
	}
	p.retries[model] = last
}

// serves tells whether some worker names the model; for "", whether some worker takes every model.
func (p *published) serves(model string) bool {
	if model != "" {
		return p.serving[model] > 0
	}
	for s := range p.pools { // they are not counted as serving
		if s.model == "" {
			return true
		}
	}
	return false
}
