package clustertest

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Pod is what a test says of a pod. It is bound to a node that does not exist, so that a deletion with a grace period leaves the
// object where it is until [Namespace.Delete].
type Pod struct {
	Name        string
	IP          string // of the status; what [Namespace.Run] says
	Labels      map[string]string
	Annotations map[string]string
	Managed     int      // bytes of managedFields that it has at least, as the many controllers of a real cluster make them
	Gates       []string // condition types of readiness gates
	UID         string   // what the API server has assigned; set by Create and Run
}

func (p Pod) object() object {
	metadata := object{"name": p.Name, "labels": p.Labels, "annotations": p.Annotations}
	if p.Managed > 0 {
		metadata["managedFields"] = []object{managed(p.Managed)}
	}
	gates := []object{}
	for _, g := range p.Gates {
		gates = append(gates, object{"conditionType": g})
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": object{
		"nodeName": "fake", "containers": []object{{"name": "engine", "image": "engine"}}, "readinessGates": gates,
	}}
}

// managed is an entry of managedFields of about so many bytes, about annotations that the pod does not have.
func managed(bytes int) object {
	fields := object{}
	for i := 0; i*70 < bytes; i++ {
		fields[fmt.Sprintf("f:controllers.example.org/%s-%06d", strings.Repeat("a", 30), i)] = object{}
	}
	return object{
		"manager": "a-controller", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
		"fieldsV1": object{"f:metadata": object{"f:annotations": fields}},
	}
}

// Status is what a kubelet reports. The zero value is a pod that waits for a node.
type Status struct {
	Phase   string // Pending if empty
	IP      string
	Ready   string // True, False or Unknown; empty: there is no such condition
	Reason  string // of the condition
	Message string // of the condition
	Gates   map[string]string
}

func (s Status) object() object {
	if s.Phase == "" {
		s.Phase = "Pending"
	}
	ips, conditions := []object{}, []object{}
	if s.IP != "" {
		ips = append(ips, object{"ip": s.IP})
	}
	if s.Ready != "" {
		now := time.Now().UTC().Format(time.RFC3339)
		conditions = append(conditions, object{"type": "Ready", "status": s.Ready, "reason": s.Reason, "message": s.Message, "lastTransitionTime": now})
	}
	for gate, value := range s.Gates {
		conditions = append(conditions, object{"type": gate, "status": value})
	}
	return object{"status": object{"phase": s.Phase, "podIP": s.IP, "podIPs": ips, "conditions": conditions}}
}

// running is the status of a pod that serves.
func running(ip string) Status { return Status{Phase: "Running", IP: ip, Ready: "True"} }

// Create makes a pod that is Pending, and returns it with its uid.
func (n *Namespace) Create(tb TB, p Pod) Pod {
	tb.Helper()
	var made struct{ Metadata struct{ UID string } }
	n.admin.must(tb, http.MethodPost, strings.TrimSuffix(podPath(n.Name, ""), "/"), jsonType, p.object(), &made)
	p.UID = made.Metadata.UID
	return p
}

// Run makes a pod that runs and is ready at p.IP, and returns it with its uid.
func (n *Namespace) Run(tb TB, p Pod) Pod {
	tb.Helper()
	p = n.Create(tb, p)
	n.Ready(tb, p.Name, p.IP)
	return p
}

// RunAll runs many pods, as fast as the API server lets it, and returns them in the same order with their uids.
func (n *Namespace) RunAll(tb TB, pods []Pod) []Pod {
	tb.Helper()
	made := make([]Pod, len(pods))
	each(len(pods), func(i int) { made[i] = n.Run(tb, pods[i]) })
	for i, p := range made {
		if p.UID == "" {
			tb.Fatalf("pod %s does not run", pods[i].Name)
		}
	}
	return made
}

// SetStatus replaces the status of a pod.
func (n *Namespace) SetStatus(tb TB, pod string, s Status) {
	tb.Helper()
	n.admin.must(tb, http.MethodPatch, podPath(n.Name, pod)+"/status", mergeType, s.object(), nil)
}

// Ready says that a pod runs at an address and is ready.
func (n *Namespace) Ready(tb TB, pod, ip string) {
	tb.Helper()
	n.SetStatus(tb, pod, running(ip))
}

// Unready says that a pod is not ready any more; the rest of its status stays.
func (n *Namespace) Unready(tb TB, pod string) {
	tb.Helper()
	patch := object{"status": object{"conditions": []object{{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}}}}
	n.admin.must(tb, http.MethodPatch, podPath(n.Name, pod)+"/status", mergeType, patch, nil)
}

// Label sets labels of a pod; the value nil takes one away.
func (n *Namespace) Label(tb TB, pod string, labels map[string]any) {
	tb.Helper()
	n.admin.must(tb, http.MethodPatch, podPath(n.Name, pod), mergeType, object{"metadata": object{"labels": labels}}, nil)
}

// Annotate sets annotations of a pod; the value nil takes one away.
func (n *Namespace) Annotate(tb TB, pod string, annotations map[string]any) {
	tb.Helper()
	n.admin.must(tb, http.MethodPatch, podPath(n.Name, pod), mergeType, object{"metadata": object{"annotations": annotations}}, nil)
}

// Terminate begins the deletion of a pod: the object has a deletionTimestamp from now on, and stays until Delete.
func (n *Namespace) Terminate(tb TB, pod string, grace time.Duration) {
	tb.Helper()
	n.admin.must(tb, http.MethodDelete, podPath(n.Name, pod), jsonType, object{"gracePeriodSeconds": int(grace.Seconds())}, nil)
}

// Delete removes a pod at once, whatever its state.
func (n *Namespace) Delete(tb TB, pod string) {
	tb.Helper()
	n.admin.must(tb, http.MethodDelete, podPath(n.Name, pod), jsonType, object{"gracePeriodSeconds": 0}, nil)
}

// Exists tells whether there is a pod, terminating or not.
func (n *Namespace) Exists(tb TB, pod string) bool {
	tb.Helper()
	status, text, err := n.admin.ask(http.MethodGet, podPath(n.Name, pod), jsonType, nil)
	if err != nil || status != http.StatusOK && status != http.StatusNotFound {
		tb.Fatalf("pod %s: %d %s %v", pod, status, text, err)
	}
	return status == http.StatusOK
}
