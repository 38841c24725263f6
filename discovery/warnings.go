package discovery

import (
	"fmt"
	"log/slog"
)

// warnings are what has been warned of and is still so: one line for each, not one in every pass.
type warnings struct {
	rivals  map[contest]bool
	manuals map[string]bool
}

// contests warns of claimants that want an address which another one has.
func (w *warnings) contests(log *slog.Logger, now []contest) {
	w.rivals = news(w.rivals, now, func(c contest) {
		log.Warn(fmt.Sprintf("%s and %s both claim worker address %s, which is %[1]s's", c.winner, c.loser, c.address))
	})
}

// blocked warns of addresses at which a worker is registered that is none of the source's.
func (w *warnings) blocked(log *slog.Logger, now []string) {
	w.manuals = news(w.manuals, now, func(address string) {
		log.Warn(fmt.Sprintf("Worker address %s has a worker that was added by hand; it stays, and the discovered one is not registered", address))
	})
}

// news tells of those that were not there before, and is those that there are now.
func news[T comparable](before map[T]bool, now []T, tell func(T)) map[T]bool {
	if len(now) == 0 {
		return nil
	}
	there := make(map[T]bool, len(now))
	for _, v := range now {
		if there[v] = true; !before[v] {
			tell(v)
		}
	}
	return there
}
