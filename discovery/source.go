package discovery

import (
	"context"
	"time"

	"github.com/smg-go/smg/workers"
)

// Source knows which workers there should be and follows what changes about that: a cluster's pods, or a file.
type Source interface {
	// Name is what the source is called in metrics: "kubernetes" or "file".
	Name() string

	// Watch follows the source until ctx ends, and tells the watcher of each change after Wanted shows it. What goes wrong on the
	// way is logged and tried again inside; it leaves what is wanted as it was. The error is nil or that of ctx.
	Watch(ctx context.Context, w Watcher) error

	// Wanted are all workers that should be registered, in no order, also several at one address. ok is false until the source has
	// been read once; what is wanted is then never half of what was read. The caller does not change the slice.
	Wanted() (wanted []Wanted, ok bool)
}

// Wanted is one worker that a source wants to be registered.
type Wanted struct {
	Claim
	Name    string       // of the pod, or the id of an entry: for people
	Key     string       // namespace/name of the pod, or the id: the greater one wins among claims of one age
	Created time.Time    // when the claimant came to be: the newer one wins an address
	Spec    workers.Spec // to register it with, ownership labels included
}

// Claim says whose worker is at an address.
type Claim struct {
	Address string // host:port, IPv6 in brackets, or what workers.Endpoint calls the address of a URL
	Owner   string // what the ownership label of its registration says: the uid of a pod, the hash of an entry
}

// Watcher hears of changes at a source. Changed does not block.
type Watcher interface{ Changed(Change) }

// Change is what has changed at a source since the watcher was last told.
type Change struct {
	Alters    bool    // another set of workers is wanted than before; false: only something that no worker is made of
	Withdrawn []Claim // wanted before, not any more: they get no new request from now on
	Claimed   []Claim // not wanted before, and now they are
}
