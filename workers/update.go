package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// updateLimit is how long an update may wait for its turn at the registry, once it runs.
const updateLimit = 30 * time.Second

// Patch is what may be changed of a registered worker without asking its engine again. What is nil stays as it is.
type Patch struct {
	Priority *uint32
	Cost     *float32
	Labels   map[string]string // put over those that there are; none can be taken away
	APIKey   *string
	Health   *HealthSpec
}

// ParsePatch reads a patch as PATCH /workers/{id} takes it. Fields that cannot be changed are ignored. The error is one sentence for
// the client: a [*BodyError] or a [*FieldError].
func ParsePatch(body []byte) (Patch, error) {
	fields, err := objectOf(body)
	if err != nil {
		return Patch{}, err
	}
	o := &object{fields: fields, err: &err}
	p := Patch{
		Priority: o.count("priority", 0), Cost: optional[float32](o, "cost", "a number", nil), Labels: labelsOf(o),
		APIKey: optional[string](o, "api_key", "a string", nil), Health: healthOf(o.inside("health")),
	}
	if err != nil {
		return Patch{}, err
	}
	return p, nil
}

// objectOf is the fields of a body that is one JSON object.
func objectOf(body []byte) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	switch {
	case !json.Valid(body):
		return nil, &BodyError{"is not valid JSON"}
	case json.Unmarshal(body, &fields) != nil || fields == nil:
		return nil, &BodyError{"must be a JSON object"}
	}
	return fields, nil
}

// apply is the spec with the patch on top.
func (p *Patch) apply(s Spec) Spec {
	s = s.Clone()
	set(&s.Priority, p.Priority)
	set(&s.Cost, p.Cost)
	set(&s.APIKey, p.APIKey)
	if len(p.Labels) > 0 && s.Labels == nil {
		s.Labels = map[string]string{}
	}
	maps.Copy(s.Labels, p.Labels)
	if p.Health != nil {
		s.Health = p.Health.over(s.Health)
	}
	return s
}

// over is h on top of another one, field by field.
func (h *HealthSpec) over(below *HealthSpec) *HealthSpec {
	merged := HealthSpec{}
	if below != nil {
		merged = *below
	}
	top := func(to **uint32, from *uint32) {
		if from != nil {
			*to = from
		}
	}
	top(&merged.TimeoutSecs, h.TimeoutSecs)
	top(&merged.CheckIntervalSecs, h.CheckIntervalSecs)
	top(&merged.SuccessThreshold, h.SuccessThreshold)
	top(&merged.FailureThreshold, h.FailureThreshold)
	top(&merged.DrainSettleSecs, h.DrainSettleSecs)
	if h.DisableHealthCheck != nil {
		merged.DisableHealthCheck = h.DisableHealthCheck
	}
	return &merged
}

// Update begins to change a worker in place: it keeps its id, its state and what is counted of it, and its engine is not asked. The
// error is a [*NotFoundError], a [*QueueFullError] or [ErrClosed].
func (e *Enroller) Update(id ID, p Patch) error {
	w := e.registry.ByID(id)
	if w == nil {
		return &NotFoundError{id}
	}
	return e.jobs.Offer(&Job{
		Kind: UpdateWorker, Key: w.endpoint.Address, URL: w.URL(), Limit: updateLimit,
		Run: func(ctx context.Context, _ *Turn) error { return e.update(ctx, id, p) },
	})
}

func (e *Enroller) update(ctx context.Context, id ID, p Patch) error {
	for ctx.Err() == nil {
		was := e.registry.ByID(id)
		if was == nil {
			return &NotFoundError{id}
		}
		now := was.patched(p.apply(was.spec), e.settings)
		now.succeed(was)
		if !e.registry.Replace(was, now) {
			continue // somebody was faster: the patch goes on top of that
		}
		if p.Health != nil && p.Health.DisableHealthCheck != nil && *p.Health.DisableHealthCheck {
			now.SetStatus(Ready) // nobody else would bring it back
		}
		e.log.Info("worker updated", "worker", now.URL(), "id", id.String(), "revision", now.Revision())
		return nil
	}
	return ctx.Err()
}

// MismatchError says that a replacement has another URL than the worker.
type MismatchError struct{ Has, Given string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("URL mismatch: worker has URL '%s' but request body has '%s'. URL changes are not supported via PUT. "+
		"Use DELETE + POST instead.", e.Has, e.Given)
}

// RanksError says that a rank cannot be replaced: its engine's ranks are registered together.
type RanksError struct{}

func (*RanksError) Error() string {
	return "Workers are not replaced while the gateway registers data-parallel ranks (--dp-aware). Use DELETE + POST instead."
}

// Replace begins to register a worker anew, under its id and with all that a registration does; what the spec leaves out takes its
// default. It is bound to the revision that the worker has now. The error is a [*NotFoundError], a [*URLError], a [*MismatchError], a
// [*RanksError], a [*QueueFullError] or [ErrClosed].
func (e *Enroller) Replace(id ID, spec Spec) error {
	w := e.registry.ByID(id)
	if w == nil {
		return &NotFoundError{id}
	}
	if e.byRank {
		return &RanksError{}
	}
	n, err := e.newEnrolment(spec, replace)
	switch {
	case err != nil:
		return err
	case n.endpoint.URL != w.URL():
		return &MismatchError{w.URL(), n.endpoint.URL}
	}
	n.id, n.revision = id, w.revision
	n.ctx, n.giveUp = context.WithCancel(context.Background())
	e.hold(n)
	if err := e.jobs.Offer(n.job); err != nil {
		e.forget(n)
		return err
	}
	return nil
}
