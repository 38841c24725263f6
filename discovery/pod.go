package discovery

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/smg-go/smg/workers"
)

// pod is what discovery reads of a pod. It is made anew for each event and not kept: what is kept is what follows from it.
type pod struct {
	namespace, name, uid string
	labels, annotations  map[string]string
	created              time.Time
	terminating          bool
	phase, ip            string
	ready                condition
}

// condition is a condition of a pod; one without a status is not there.
type condition struct{ status, reason, message string }

func podOf(p *corev1.Pod) pod {
	return pod{
		namespace: p.Namespace, name: p.Name, uid: string(p.UID),
		labels: p.Labels, annotations: p.Annotations,
		created: p.CreationTimestamp.Time,
		// That it is set counts, not what it says: the API server's clock and this one may differ by hours.
		terminating: p.DeletionTimestamp != nil,
		phase:       string(p.Status.Phase), ip: p.Status.PodIP,
		ready: conditionOf(p, corev1.PodReady),
	}
}

func conditionOf(p *corev1.Pod, of corev1.PodConditionType) condition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == of {
			return condition{string(c.Status), c.Reason, c.Message}
		}
	}
	return condition{}
}

func (p *pod) key() string { return p.namespace + "/" + p.name }

// address is where the pod is reached, in the canonical form.
func (p *pod) address() (netip.Addr, error) {
	a, err := netip.ParseAddr(p.ip)
	if err == nil && a.Zone() != "" {
		err = fmt.Errorf("'%s' is an address of one interface", p.ip)
	}
	return a.Unmap(), err
}

// obstacle says in words why a pod that matches is no worker now; "" means that it is one. fault is true if somebody made a mistake,
// false if it is only how things stand in the life of a pod. Readiness gates are part of Ready.
func (p *pod) obstacle() (reason string, fault bool) {
	if p.terminating {
		return "it is being deleted", false
	}
	if p.uid == "" {
		return "it has no uid", true
	}
	if p.ip == "" {
		return "it has no IP address yet", false
	}
	if _, err := p.address(); err != nil {
		return fmt.Sprintf("it has an unparsable Pod IP '%s'", p.ip), true
	}
	if p.phase != string(corev1.PodRunning) {
		return fmt.Sprintf("its phase is %s, not Running", orNone(p.phase)), false
	}
	if p.ready.status != string(corev1.ConditionTrue) {
		return "it is not Ready" + p.ready.describe(), false
	}
	return "", false
}

func orNone(s string) string {
	if s == "" {
		return "not set"
	}
	return s
}

func (c condition) describe() string {
	switch {
	case c.status == "":
		return ": it has no condition Ready"
	case c.reason == "" && c.message == "":
		return ": its condition Ready is " + c.status
	case c.reason == "" || c.message == "":
		return ": " + c.reason + c.message
	}
	return ": " + c.reason + ": " + c.message
}

// wanted are the workers that the pod stands for, and what is wrong with what it says, in sentences. A pod that plays no role, or
// has an obstacle, has none.
func (s *KubernetesSettings) wanted(p *pod) (wanted []Wanted, warnings []string) {
	part, ok := s.Selectors.Role(p.labels)
	if !ok {
		return nil, nil
	}
	if reason, fault := p.obstacle(); reason != "" {
		if fault {
			warnings = []string{"Pod " + p.name + ": " + reason}
		}
		return nil, warnings
	}
	return s.workersOf(p, part)
}

// workersOf are the workers of a pod that has an address, one for each port.
func (s *KubernetesSettings) workersOf(p *pod, part workers.Type) ([]Wanted, []string) {
	ip, _ := p.address()
	said, warnings := s.read(p, part)
	wanted := make([]Wanted, len(said.ports))
	for i, port := range said.ports {
		address := netip.AddrPortFrom(ip, port).String()
		spec := workers.NewSpec(address)
		spec.WorkerType = part
		spec.Labels = map[string]string{LabelPodName: p.name, LabelPodUID: p.uid}
		if said.model != "" {
			spec.Labels["served_model_name"] = said.model
		}
		spec.KVConnector = said.connector
		if said.bootstrap != nil {
			spec.BootstrapPort = &said.bootstrap[i]
		}
		if said.engines != nil {
			spec.KVEngineID = said.engines[i]
		}
		wanted[i] = Wanted{Claim: Claim{address, p.uid}, Name: p.name, Key: p.key(), Created: p.created, Spec: spec}
	}
	return wanted, warnings
}
