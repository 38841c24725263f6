package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Policy chooses among the workers that may serve a request. Its methods are called concurrently.
type Policy interface {
	// Name is the policy's name, as --policy takes it.
	Name() string

	// Select returns the place of the chosen worker in the list; -1 if it chooses none of them. It takes the list's order as
	// stable between calls. With x.Explain set it notes the parts of its scores; with x.DryRun set it books nothing.
	Select(x *pipeline.Exchange, among workers.List) int

	// Wants is what the policy reads of requests and workers beyond the list itself.
	Wants() pipeline.Want

	// Forget drops what the policy keeps about a worker that was removed.
	Forget(w *workers.Worker)
}

// Booked is a policy that keeps books of what it has chosen. What it needs of an attempt it keeps in a fact of its own
// ([pipeline.NewFact]); the first byte of an answer it hears by watching the exchange ([pipeline.Exchange.Watch]) in Select.
type Booked interface {
	Policy
	// Ended is told once when an attempt for which Select chose a worker is over, however it ended; not after a dry run. The legs
	// of the exchange say how.
	Ended(x *pipeline.Exchange)
}

// Reasoned is a policy that can say why it chose nobody.
type Reasoned interface {
	Policy
	// Reason is one sentence for the client, right after Select has chosen nobody of a list that was not empty; "" if there is
	// nothing to say.
	Reason(x *pipeline.Exchange) string
}

// stateless is what policies without books embed.
type stateless struct{}

func (stateless) Wants() pipeline.Want   { return 0 }
func (stateless) Forget(*workers.Worker) {}
