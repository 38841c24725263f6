package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// follower keeps the store of one namespace, or of all, as the API server says. It lists once and watches from there on, and lists
// again only when the server does not know any more what has changed since.
type follower struct {
	settings *KubernetesSettings
	pods     *podClient
	store    *store
	watcher  Watcher
	listed   func() // called after each list
	log      *slog.Logger

	version string    // to watch from; "": list first
	confirm time.Time // when the workers that the last list lacks are looked at once more; zero: nothing is in doubt
	backoff backoff
}

// errShort is a watch that came to nothing; without a wait after it the server would be asked without end.
var errShort = errors.New("the watch ended at once, without an event")

func (f *follower) run(ctx context.Context) {
	f.backoff.pace = f.settings.pace
	defer f.pods.close()
	again := false // the version was too old just now, and no watch has gone well since
	for ctx.Err() == nil {
		listing := f.version == ""
		err := f.step(ctx)
		switch {
		case err == nil:
			again = again && listing
		case ctx.Err() != nil:
			return
		case expired(err) && !again:
			again = true
			f.log.Warn("K8s API server does not know the version any more, listing again: "+plain(err), f.scope())
			f.version = ""
		default:
			if expired(err) {
				f.version = ""
			}
			if !f.recover(ctx, err) {
				return
			}
		}
	}
}

// step lists or watches, and returns when that is over. A panic is an error like any other, after which the list is read anew.
func (f *follower) step(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.version = ""
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	if f.version == "" {
		return f.list(ctx)
	}
	return f.watch(ctx)
}

// recover tells of an error and waits; it returns false if ctx ended before.
func (f *follower) recover(ctx context.Context, err error) bool {
	wait := f.backoff.after(asked(err))
	f.log.Error("K8s worker watcher error (auto-retrying with backoff): "+plain(err), f.scope(), "retry", wait.Round(time.Millisecond))
	if stale(err) {
		f.pods.renew()
	}
	return sleep(ctx, wait)
}

func (f *follower) scope() slog.Attr { return slog.String("namespace", f.pods.scope()) }

// list reads all pages and replaces the store in one step. An error, also one of a later page, leaves the store as it is.
func (f *follower) list(ctx context.Context) error {
	now := map[string]*kept{}
	version, err := f.pods.list(ctx, f.settings.pace, func(p *corev1.Pod) {
		if e := f.kept(podOf(p)); e != nil {
			now[p.Namespace+"/"+p.Name] = e
		}
	})
	if err != nil {
		f.count(ctx)
		return err
	}
	change, held := f.store.replace(now, f.due())
	f.version = version
	f.doubt(held)
	f.listed()
	f.watcher.Changed(change)
	return nil
}

// doubt sets the time of the second list that is needed to let workers go; one that is made before changes nothing about it.
func (f *follower) doubt(held int) {
	switch {
	case held == 0:
		f.confirm = time.Time{}
	case f.confirm.IsZero() || f.due():
		f.confirm = time.Now().Add(f.settings.pace.confirm)
		f.log.Warn(fmt.Sprintf("K8s list lacks %d worker(s), more than half: they stay until a second list in %s agrees",
			held, seconds(f.settings.pace.confirm)), f.scope())
	}
}

func (f *follower) count(ctx context.Context) {
	if f.settings.Metrics != nil && ctx.Err() == nil {
		f.settings.Metrics.SnapshotErrors.Inc()
	}
}

// watch follows the changes since the version until the server ends the watch, an error comes, or it is time to list once more.
func (f *follower) watch(ctx context.Context) error {
	began, from := time.Now(), f.version
	life := f.settings.pace.lifetime()
	limited, cancel := context.WithTimeout(ctx, f.limit(life))
	defer cancel()
	events, err := f.pods.watch(limited, cancel, f.settings.pace, from, life)
	if err == nil {
		err = f.take(events)
		events.Stop()
	}
	lived := time.Since(began)
	if lived >= f.settings.pace.healthy {
		f.backoff.reset()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.due():
		f.version = ""
		return nil
	case err == nil && limited.Err() != nil:
		return fmt.Errorf("the watch was silent, and has not ended %s after it should have", seconds(f.settings.pace.slack))
	case err == nil && lived < f.settings.pace.short && f.version == from:
		return errShort
	}
	return err
}

// limit is how long a watch may take: what it asks the server for and some more, or until what is in doubt is looked at again.
func (f *follower) limit(life time.Duration) time.Duration {
	limit := life + f.settings.pace.slack
	if !f.confirm.IsZero() {
		limit = min(limit, time.Until(f.confirm))
	}
	return limit
}

func (f *follower) due() bool { return !f.confirm.IsZero() && time.Until(f.confirm) <= 0 }

// take applies events until the watch ends.
func (f *follower) take(events watch.Interface) error {
	for e := range events.ResultChan() {
		if e.Type == watch.Error {
			return eventError(e.Object)
		}
		p, ok := e.Object.(*corev1.Pod)
		if !ok {
			continue // a kind that was not asked for
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			f.put(p, f.kept(podOf(p)))
		case watch.Deleted:
			f.put(p, nil)
		}
		if p.ResourceVersion != "" {
			f.version = p.ResourceVersion
		}
	}
	return nil
}

func (f *follower) put(p *corev1.Pod, e *kept) {
	if change, known := f.store.put(p.Namespace+"/"+p.Name, e); known {
		f.watcher.Changed(change)
	}
}

// mostWarned bounds what is remembered of a pod whose annotations never come to rest.
const mostWarned = 16

// kept is what a pod comes to, nil if to nothing. What is wrong with it is logged once for each uid and value.
func (f *follower) kept(p pod) *kept {
	wanted, warnings := f.settings.wanted(&p)
	warned := f.store.warned(p.key(), p.uid)
	for _, w := range warnings {
		if _, ok := warned[w]; ok {
			continue
		}
		f.log.Warn(w, "namespace", p.namespace)
		if warned == nil || len(warned) >= mostWarned {
			warned = map[string]struct{}{}
		}
		warned[w] = struct{}{}
	}
	if len(wanted) == 0 && len(warned) == 0 {
		return nil
	}
	return &kept{uid: p.uid, wanted: wanted, warned: warned}
}
