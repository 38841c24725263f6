package stages

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/workers"
)

// respite is until when a worker has asked not to be sent the request again.
type respite struct {
	worker *workers.Worker
	until  time.Time
}

// respites are those of the request.
var respites = pipeline.NewFact[[]respite]("respites")

// noteRespite keeps what the worker of a failed attempt has asked for, at most longest.
func noteRespite(x *pipeline.Exchange, e *pipeline.Error, longest time.Duration) {
	w := x.Target()
	if e.Held == nil || w == nil {
		return
	}
	now := time.Now()
	asked := min(retryAfter(e.Held.Fields, now), longest)
	if asked <= 0 {
		return
	}
	all := respites.Get(x)
	for i := range all {
		if all[i].worker == w {
			all[i].until = now.Add(asked)
			return
		}
	}
	respites.Set(x, append(all, respite{w, now.Add(asked)}))
}

// restUntil is when the request may be sent to a worker again; the zero time if it may at any time.
func restUntil(x *pipeline.Exchange, w *workers.Worker) time.Time {
	for _, r := range respites.Get(x) {
		if r.worker == w {
			return r.until
		}
	}
	return time.Time{}
}

// rested tells whether the request may be sent to a worker now, as far as the worker has asked for anything.
func rested(x *pipeline.Exchange, w *workers.Worker, now time.Time) bool {
	return !restUntil(x, w).After(now)
}

// untilReady is how long it takes until the request may be sent again to the first of the workers that may be chosen.
func untilReady(x *pipeline.Exchange) time.Duration {
	if len(respites.Get(x)) == 0 {
		return 0
	}
	now, pin := time.Now(), policy.Pinned.Get(x)
	soonest, found := time.Duration(0), false
	for _, w := range x.Pool.All() {
		if !w.Available() || pin.Only && w != pin.Worker {
			continue
		}
		if d := max(0, restUntil(x, w).Sub(now)); !found || d < soonest {
			soonest, found = d, true
		}
	}
	return soonest
}

// retryAfter is what a worker asks for, in seconds or as a date; 0 if it asks for nothing that can be understood.
func retryAfter(fields []pipeline.Field, now time.Time) time.Duration {
	for _, f := range fields {
		if !strings.EqualFold(f.Name, "Retry-After") {
			continue
		}
		if date, err := http.ParseTime(f.Value); err == nil {
			return max(0, date.Sub(now))
		}
		seconds, _ := strconv.ParseUint(f.Value, 10, 31)
		return time.Duration(seconds) * time.Second
	}
	return 0
}
