package workers

import "maps"

// Retries is what a worker's spec says of the retries of its model: of the worker that was registered last with any of it. nil if none
// was, or the model's last worker has left.
func (r *Registry) Retries(model string) *ResilienceSpec {
	p := r.published.Load()
	if len(p.retries) == 0 {
		return nil
	}
	return p.retries[model].spec
}

// Retried tells whether the workers of some model ask for more than one attempt at a request, whatever the gateway's own settings are.
func (r *Registry) Retried() bool {
	for _, rule := range r.published.Load().retries {
		s := rule.spec
		if s.MaxRetries != nil && *s.MaxRetries > 1 && !(s.DisableRetry != nil && *s.DisableRetry) {
			return true
		}
	}
	return false
}

// retryRule is the retries of a model, and who has set them.
type retryRule struct {
	spec   *ResilienceSpec
	setter ID
}

// retries tells whether the spec says anything of retries.
func (s *ResilienceSpec) retries() bool {
	return s != nil && (s.MaxRetries != nil || s.InitialBackoffMs != nil || s.MaxBackoffMs != nil || s.BackoffMultiplier != nil ||
		s.JitterFactor != nil || s.DisableRetry != nil)
}

// adopt takes over what a worker that comes, or comes in the place of another one, says of retries.
func (p *published) adopt(was, now *Worker) {
	said := now.spec.Resilience.retries()
	rule, ruled := p.retries[now.model]
	switch {
	case said && (was == nil || was.model != now.model || was.spec.Resilience != now.spec.Resilience):
		p.retries = maps.Clone(p.retries)
		if p.retries == nil {
			p.retries = map[string]retryRule{}
		}
		p.retries[now.model] = retryRule{now.spec.Resilience, now.id}
	case !said && ruled && was != nil && rule.setter == now.id:
		p.unrule(now.model) // who has set it has taken it back
	}
	if was != nil {
		p.abandon(was.model)
	}
}

// abandon drops the retries of a model that no worker serves any more.
func (p *published) abandon(model string) {
	if _, ruled := p.retries[model]; !ruled || p.serving[model] > 0 {
		return
	}
	for s := range p.pools {
		if s.model == model {
			return // workers that take every model are not counted as serving
		}
	}
	p.unrule(model)
}

func (p *published) unrule(model string) {
	p.retries = maps.Clone(p.retries)
	delete(p.retries, model)
}
