package discovery

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// finding is what a pod comes to, by the rules that make workers of pods, with the reasons.
func (s *KubernetesSettings) finding(p *corev1.Pod) PodFinding {
	read := podOf(p)
	f := PodFinding{Namespace: p.Namespace, Name: p.Name, Workers: []string{}, Notes: []string{}}
	part, ok := s.Selectors.Role(p.Labels)
	if !ok {
		f.Notes = s.mismatch(p.Labels)
		return f
	}
	f.Matches, f.Role = true, part.String()
	if reason, _ := read.obstacle(); reason != "" {
		f.Notes = append([]string{reason}, gates(p)...)
	}
	wanted, _ := s.wanted(&read)
	for i := range wanted {
		f.Workers = append(f.Workers, wanted[i].Address)
	}
	// Also those of a pod that is no worker yet: it is better to hear of them before it is one.
	_, warnings := s.read(&read, part)
	for _, w := range warnings {
		f.Notes = append(f.Notes, strings.TrimPrefix(w, "Pod "+p.Name+": "))
	}
	return f
}

// mismatch says for each selector which pair the labels lack.
func (s *KubernetesSettings) mismatch(labels map[string]string) []string {
	notes := []string{}
	for _, r := range s.Selectors.roles() {
		missing := strings.Join(r.selector.Missing(labels), ", ")
		if s.Selectors.disaggregated() {
			missing = r.name + ": " + missing
		}
		notes = append(notes, missing)
	}
	return notes
}

// gates names the readiness gates that keep a pod from being Ready. Ready has them in it already; this says which.
func gates(p *corev1.Pod) []string {
	var unmet []string
	for _, gate := range p.Spec.ReadinessGates {
		switch c := conditionOf(p, gate.ConditionType); c.status {
		case string(corev1.ConditionTrue):
		case "":
			unmet = append(unmet, fmt.Sprintf("its readiness gate %s has not been reported on", gate.ConditionType))
		default:
			unmet = append(unmet, fmt.Sprintf("its readiness gate %s is %s", gate.ConditionType, c.status))
		}
	}
	return unmet
}
