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

// Settings are the operator's settings for policies, from flags.
type Settings struct{}

// stateless is what policies without books embed.
type stateless struct{}

func (stateless) Wants() pipeline.Want   { return 0 }
func (stateless) Forget(*workers.Worker) {}
