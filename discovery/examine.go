package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Examination is what discovery would find in a cluster now, and what stands in its way.
type Examination struct {
	Credentials string       `json:"credentials"`       // where they are from, in words
	Server      string       `json:"server"`            // URL of the API server
	Version     string       `json:"version,omitempty"` // of the API server; "" if it does not answer
	Rights      []Right      `json:"rights"`            // that discovery needs
	Pods        []PodFinding `json:"pods"`              // all of the namespaces, sorted: those that match first
	Problems    []string     `json:"problems"`          // what somebody must do something about, in sentences; none: all is well
}

// Right is one thing that discovery must be allowed to do.
type Right struct {
	Verb      string `json:"verb"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"` // "": all
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason,omitempty"` // the server's words
}

// PodFinding is what a pod comes to.
type PodFinding struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Role      string   `json:"role,omitempty"` // regular, encode, prefill or decode; "" if no selector matches
	Matches   bool     `json:"matches"`
	Workers   []string `json:"workers"` // addresses; none: it is no worker
	Notes     []string `json:"notes"`   // why it is no worker, or what is odd about it
}

// Examine looks at a cluster as discovery would and says what it finds. It changes nothing. The error is that there are no
// credentials, or that ctx ended; all else, an API server that does not answer included, is among the problems.
func Examine(ctx context.Context, s KubernetesSettings) (Examination, error) {
	s = s.complete()
	c, err := newClient(s.Kubeconfig)
	if err != nil {
		return Examination{}, err
	}
	defer c.close()
	e := &examiner{settings: &s, client: c, found: Examination{
		Credentials: c.source, Server: c.server, Rights: []Right{}, Pods: []PodFinding{}, Problems: []string{},
	}}
	e.examine(ctx)
	return e.found, ctx.Err()
}

type examiner struct {
	settings *KubernetesSettings
	client   *client
	found    Examination
}

func (e *examiner) examine(ctx context.Context) {
	version, err := e.client.version(ctx, e.settings.pace)
	e.found.Version = version
	// Whether the version may be asked for does not matter, only that somebody answers.
	if err != nil && !answered(err) {
		e.problem("The API server at %s cannot be used: %s.", e.client.server, inWords(err))
		return
	}
	for _, ns := range e.settings.Namespaces {
		e.namespace(ctx, ns)
	}
	slices.SortStableFunc(e.found.Pods, byMatchAndName)
	e.contests()
	e.summary()
}

func (e *examiner) problem(format string, a ...any) {
	if text := fmt.Sprintf(format, a...); !slices.Contains(e.found.Problems, text) {
		e.found.Problems = append(e.found.Problems, text)
	}
}

// namespace looks at the rights in a namespace, or in all, and at the pods there. The list is tried whatever the server says of
// the rights: it is what counts.
func (e *examiner) namespace(ctx context.Context, ns string) {
	for _, verb := range []string{"list", "watch"} {
		right, err := e.client.mayI(ctx, e.settings.pace, verb, ns)
		switch {
		case err != nil:
			e.problem("The API server does not say whether smg may %s pods %s: %s.", verb, where(ns), inWords(err))
			continue
		case !right.Allowed:
			e.problem("These credentials may not %s pods %s.", verb, where(ns))
		}
		e.found.Rights = append(e.found.Rights, right)
	}
	_, err := e.client.pods(ns, "").list(ctx, e.settings.pace, func(p *corev1.Pod) {
		e.found.Pods = append(e.found.Pods, e.settings.finding(p))
	})
	if err != nil {
		e.problem("The pods %s cannot be listed: %s.", where(ns), inWords(err))
	}
}

func where(ns string) string {
	if ns == allNamespaces {
		return "in all namespaces"
	}
	return "in the namespace " + ns
}

// contests notes the pods that claim one address: only one of them can have it.
func (e *examiner) contests() {
	claims := map[string][]int{}
	for i := range e.found.Pods {
		for _, address := range e.found.Pods[i].Workers {
			claims[address] = append(claims[address], i)
		}
	}
	for i := range e.found.Pods {
		p := &e.found.Pods[i]
		for _, address := range p.Workers {
			for _, other := range claims[address] {
				if other != i {
					o := &e.found.Pods[other]
					p.Notes = append(p.Notes, fmt.Sprintf("the pod %s/%s is at %s as well, only one of them is a worker", o.Namespace, o.Name, address))
				}
			}
		}
	}
}

// summary names what is wrong with the pods as a whole, if they could be listed at all.
func (e *examiner) summary() {
	if len(e.found.Problems) > 0 {
		return
	}
	matching := slices.IndexFunc(e.found.Pods, func(p PodFinding) bool { return !p.Matches })
	if matching < 0 {
		matching = len(e.found.Pods)
	}
	scope := e.scope()
	switch {
	case len(e.found.Pods) == 0:
		e.problem("There are no pods %s.", scope)
	case matching == 0:
		e.problem("No pod %s matches, of %d: %s.", scope, len(e.found.Pods), e.settings.Selectors.describe())
	case !slices.ContainsFunc(e.found.Pods, func(p PodFinding) bool { return len(p.Workers) > 0 }):
		e.problem("No pod that matches is a worker now, of %d.", matching)
	}
	for i := range e.found.Pods[:matching] {
		p := &e.found.Pods[i]
		if len(p.Workers) > 0 && len(p.Notes) > 0 {
			e.problem("The pod %s/%s: %s.", p.Namespace, p.Name, strings.Join(p.Notes, "; "))
		}
	}
}

func (e *examiner) scope() string {
	if e.settings.Namespaces[0] == allNamespaces {
		return "in the cluster"
	}
	if len(e.settings.Namespaces) == 1 {
		return where(e.settings.Namespaces[0])
	}
	return "in the namespaces " + strings.Join(e.settings.Namespaces, ", ")
}

func byMatchAndName(a, b PodFinding) int {
	if a.Matches != b.Matches {
		if a.Matches {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}
