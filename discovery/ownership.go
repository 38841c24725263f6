package discovery

import (
	"fmt"
	"maps"
	"strings"

	"github.com/smg-go/smg/workers"
)

// Labels by which a worker is known as a discovered one. One that has none of them is left alone.
const (
	LabelPodName = "smg.ai/pod-name" // of the pod that the worker is
	LabelPodUID  = "smg.ai/pod-uid"  // owner of the workers of source "kubernetes"

	LabelProvider = "smg.ai/discovery-provider"  // the name of any other source
	LabelID       = "smg.ai/discovery-id"        // of the entry that the worker is
	LabelSpecHash = "smg.ai/discovery-spec-hash" // owner of the workers of any other source: another entry has another one
)

// dialect is how the workers of a source are known, and what the log says of them.
type dialect struct {
	owner   func(labels map[string]string) (owner string, owned bool)
	mark    func(Wanted) map[string]string // the labels that tell the owner
	adding  func(Wanted) string
	removed func(removal) string // whom
	why     string               // workers are removed
}

func dialectOf(source string) dialect {
	if source == kubernetesSource {
		return podDialect
	}
	return entryDialect(source)
}

const kubernetesSource = "kubernetes"

var podDialect = dialect{
	owner: func(labels map[string]string) (string, bool) {
		uid, owned := labels[LabelPodUID]
		return uid, owned
	},
	mark: func(w Wanted) map[string]string { return map[string]string{LabelPodName: w.Name, LabelPodUID: w.Owner} },
	adding: func(w Wanted) string {
		return fmt.Sprintf("%s (%s) for pod %s", w.Address, role(w.Spec.WorkerType), w.Name)
	},
	removed: func(r removal) string {
		return fmt.Sprintf("%s (%d registration(s), pod %s)", r.address, len(r.targets), r.targets[0].owner)
	},
	why: "pod unready, gone, terminating, or replaced",
}

func entryDialect(source string) dialect {
	return dialect{
		owner: func(labels map[string]string) (string, bool) {
			return labels[LabelSpecHash], labels[LabelProvider] == source
		},
		mark: func(w Wanted) map[string]string {
			return map[string]string{LabelProvider: source, LabelID: w.Name, LabelSpecHash: w.Owner}
		},
		adding: func(w Wanted) string {
			return fmt.Sprintf("%s (%s) as %s", w.Spec.URL, role(w.Spec.WorkerType), w.Name)
		},
		removed: func(r removal) string {
			first := r.targets[0].worker
			return fmt.Sprintf("%s (%d registration(s), %s)", first.Endpoint().Base, len(r.targets), first.Spec().Labels[LabelID])
		},
		why: "no longer published, a different instance now holds the address, or it is a stale registration beside the current one",
	}
}

// claimOf is the claim by which a worker has been registered; owned is false for one that the source has nothing to do with.
func (d *dialect) claimOf(w *workers.Worker) (c Claim, owned bool) {
	owner, owned := d.owner(w.Spec().Labels)
	return Claim{Address: w.Endpoint().Address, Owner: owner}, owned
}

// marked is the spec of a wanted worker with the labels that tell its owner.
func (d *dialect) marked(w Wanted) workers.Spec {
	spec := w.Spec.Clone()
	if spec.Labels == nil {
		spec.Labels = map[string]string{}
	}
	maps.Copy(spec.Labels, d.mark(w))
	return spec
}

// role is a worker's type as log lines have it.
func role(t workers.Type) string {
	name := t.String()
	return strings.ToUpper(name[:1]) + name[1:]
}
