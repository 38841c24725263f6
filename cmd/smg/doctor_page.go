package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/smg-go/smg/discovery"
)

// strangers is how many pods that do not match are shown. In a large cluster most pods are somebody else's; one that should match
// and does not is seldom far down.
const strangers = 10

// writeExamination prints for people what was found: whom was asked, what is allowed, what becomes of each pod, what is to be done.
func writeExamination(w io.Writer, found *discovery.Examination, pods discovery.KubernetesSettings, all bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "credentials\t%s\n", found.Credentials)
	fmt.Fprintf(t, "API server\t%s\n", strings.TrimSpace(found.Server+" "+found.Version))
	fmt.Fprintf(t, "namespaces\t%s\n", orNone(strings.Join(pods.Namespaces, ", "), "all"))
	fmt.Fprintf(t, "selector\t%s\n", pods.Selectors.Worker)
	for _, r := range found.Rights {
		fmt.Fprintf(t, "%s\t%s\n", r.Verb+" "+r.Resource, answerOf(r))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(found.Pods) > 0 {
		writePods(t, found.Pods, all)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return writeToDo(w, found)
}

func answerOf(r discovery.Right) string {
	answer := "yes"
	if !r.Allowed {
		answer = "no"
	}
	answer += ", " + where(r.Namespace)
	if r.Reason != "" && !r.Allowed {
		answer += ": " + r.Reason
	}
	return answer
}

func where(namespace string) string {
	if namespace == "" {
		return "in all namespaces"
	}
	return "in the namespace " + namespace
}

// writePods prints a table of the pods that match, which come first, and of some of those that do not.
func writePods(t io.Writer, pods []discovery.PodFinding, all bool) {
	matching, others := 0, 0
	workers := map[string]bool{} // two pods may be at one address
	fmt.Fprint(t, "\nPOD\tWORKERS\tWHY\n")
	for _, p := range pods {
		if p.Matches {
			matching++
			for _, address := range p.Workers {
				workers[address] = true
			}
		} else {
			others++
		}
		if p.Matches || all || others <= strangers {
			writePod(t, p)
		}
	}
	if others > strangers && !all {
		fmt.Fprintf(t, "and %d more that do not match (--all shows them)\n", others-strangers)
	}
	fmt.Fprintf(t, "\n%s, %s, %s\n", counted(len(pods), "pod", "pods"), counted(matching, "matches", "match"), counted(len(workers), "worker", "workers"))
}

// counted is a number with the word for one, or for any other number.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func writePod(t io.Writer, p discovery.PodFinding) {
	workers := orNone(strings.Join(p.Workers, " "), "-")
	if p.Role != "" && p.Role != "regular" && len(p.Workers) > 0 {
		workers += " (" + p.Role + ")"
	}
	fmt.Fprintf(t, "%s/%s\t%s\t%s\n", p.Namespace, p.Name, workers, orNone(strings.Join(p.Notes, "; "), "Ready"))
}

// writeToDo prints what keeps smg from working, a line for each, and the rules that are missing.
func writeToDo(w io.Writer, found *discovery.Examination) error {
	var b strings.Builder
	if len(found.Problems) == 0 {
		b.WriteString("\nnothing keeps smg from following these pods\n")
	} else {
		b.WriteString("\nto do\n")
	}
	for _, p := range found.Problems {
		fmt.Fprintf(&b, "- %s\n", p)
	}
	for _, r := range found.Rights {
		if !r.Allowed {
			fmt.Fprintf(&b, "- Give %s this rule: %s\n", roleFor(r.Namespace), ruleOf(r))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func roleFor(namespace string) string {
	if namespace == "" {
		return "a ClusterRole"
	}
	return "a Role " + where(namespace)
}

// ruleOf is the YAML of a rule that grants a right.
func ruleOf(r discovery.Right) string {
	return fmt.Sprintf(`{apiGroups: [""], resources: [%q], verbs: [%q]}`, r.Resource, r.Verb)
}
