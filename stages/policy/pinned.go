package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Pin is a choice that the policy would make again, whoever else there is.
type Pin struct {
	Worker *workers.Worker
	Only   bool // the client asked for this worker and no other
}

// Pinned is the pin that an attempt's choice has followed; not set if it followed none. It stays for the attempts that come after.
var Pinned = pipeline.NewFact[Pin]("pinned")

func pinTo(x *pipeline.Exchange, w *workers.Worker, only bool) {
	if !x.DryRun {
		Pinned.Set(x, Pin{w, only})
	}
}

// firstAttempt tells whether what is chosen may be remembered: what a retry picks is not.
func firstAttempt(x *pipeline.Exchange) bool { return x.Number <= 1 && !x.DryRun }
