package workers

import "fmt"

// enter registers what an enrolment has found out, one worker for each spec: adds them, or puts them in the place of those that they
// replace. They turn ready only after every listener of the registry knows them; if anything goes wrong on the way, a panic of a
// listener too, those that were added are taken out again.
func (e *Enroller) enter(n *enrolment, specs []Spec) error {
	made := make([]*Worker, len(specs))
	for i, spec := range specs {
		id := n.id
		if i > 0 {
			id = NewID()
		}
		var err error
		if made[i], err = newWorker(id, spec, e.settings); err != nil {
			return err
		}
		made[i].reached = true
		e.registry.christen(made[i])
	}
	complete := false
	var added []*Worker
	defer func() {
		for _, w := range added {
			if !complete {
				e.registry.Remove(w)
			}
		}
	}()
	var err error
	switch n.mode {
	case create:
		added = made
		if err = e.registry.Add(made...); err != nil {
			added = nil
		}
	case upsert:
		err = e.upsert(n, made, &added)
	default:
		err = e.replace(n, made[0])
	}
	if err != nil {
		return err
	}
	for _, w := range made {
		w.SetStatus(Ready)
	}
	complete, n.worker = true, made[0]
	return nil
}

// upsert adds those whose URLs nobody has and replaces the others. Ranks of the engine that it does not tell of any more go.
func (e *Enroller) upsert(n *enrolment, made []*Worker, added *[]*Worker) error {
	for _, w := range e.registry.ByAddress(n.endpoint.Address) {
		if w.endpoint.Base == n.endpoint.Base && !anyAt(made, w.URL()) && !n.oneRank() {
			e.registry.Remove(w)
		}
	}
	for _, w := range made {
		holder := e.registry.ByURL(w.URL())
		if holder == nil {
			if err := e.registry.Add(w); err != nil {
				return err
			}
			*added = append(*added, w)
			continue
		}
		w.succeed(holder)
		if !e.registry.Replace(holder, w) {
			return &StaleError{holder.id, holder.revision}
		}
	}
	return nil
}

// replace puts a worker in the place of the revision that the enrolment is bound to.
func (e *Enroller) replace(n *enrolment, now *Worker) error {
	was := e.registry.ByID(n.id)
	if was == nil || was.revision != n.revision {
		return &StaleError{n.id, n.revision}
	}
	now.succeed(was)
	if !e.registry.Replace(was, now) {
		return &StaleError{n.id, n.revision}
	}
	return nil
}

// stillThere checks that what a replacement is bound to is still registered.
func (e *Enroller) stillThere(n *enrolment) error {
	if n.mode != replace {
		return nil
	}
	if w := e.registry.ByID(n.id); w == nil || w.revision != n.revision {
		return &StaleError{n.id, n.revision}
	}
	return nil
}

// StaleError says that a worker has been replaced or removed since a change of it was asked for.
type StaleError struct {
	ID       ID
	Revision uint64 // that it had then
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("Worker %s is no longer at revision %d", e.ID, e.Revision)
}

func anyAt(ws []*Worker, url string) bool {
	for _, w := range ws {
		if w.URL() == url {
			return true
		}
	}
	return false
}
