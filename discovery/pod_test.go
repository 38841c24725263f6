package discovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/smg-go/smg/workers"
)

// readyPod is one of app=w that has everything a worker needs, and what change makes of it.
func readyPod(name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "w"}, Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func uid(u string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.UID = types.UID(u) } }

func label(k, v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[k] = v } }

func annotation(k, v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Annotations[k] = v } }

func ready(s corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions[0].Status = s }
}

func phase(s corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = s } }

func deleting(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { t := metav1.NewTime(at); p.DeletionTimestamp = &t }
}

// regular are settings for pods of app=w at port 8000.
func regular() KubernetesSettings {
	return KubernetesSettings{Selectors: Selectors{Worker: Selector{"app": "w"}}, Port: 8000}.complete()
}

func addresses(wanted []Wanted) []string {
	all := []string{}
	for _, w := range wanted {
		all = append(all, w.Address)
	}
	return all
}

// discovery.md, section 6
func TestAPodIsAWorkerOnlyIfAllHolds(t *testing.T) {
	tests := []struct {
		name     string
		pod      *corev1.Pod
		workers  []string
		obstacle string
		warning  string
	}{
		{"a pod that is Running and Ready is one", readyPod("p", "10.0.0.1"), []string{"10.0.0.1:8000"}, "", ""},
		{"IPv6 goes in brackets", readyPod("p", "fd00::1"), []string{"[fd00::1]:8000"}, "", ""},
		{"IPv6 has its canonical text", readyPod("p", "FD00:0:0::0001"), []string{"[fd00::1]:8000"}, "", ""},
		{"IPv4 in IPv6 is IPv4", readyPod("p", "::ffff:10.0.0.1"), []string{"10.0.0.1:8000"}, "", ""},
		{"a pod that the selector does not match is none", readyPod("p", "10.0.0.1", label("app", "x")), nil, "", ""},
		{"a pod that is being deleted is none", readyPod("p", "10.0.0.1", deleting(time.Unix(1, 0))), nil, "it is being deleted", ""},
		{
			"a pod that will be deleted is none, whatever the time is",
			readyPod("p", "10.0.0.1", deleting(time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))), nil, "it is being deleted", "",
		},
		{"a pod without uid is none", readyPod("p", "10.0.0.1", uid("")), nil, "it has no uid", "Pod p: it has no uid"},
		{"a pod without address is none", readyPod("p", ""), nil, "it has no IP address yet", ""},
		{
			"a pod with an address that is none is none", readyPod("p", "not-an-ip"), nil, "it has an unparsable Pod IP 'not-an-ip'",
			"Pod p: it has an unparsable Pod IP 'not-an-ip'",
		},
		{
			"a pod with an address of one interface is none", readyPod("p", "fe80::1%eth0"), nil, "it has an unparsable Pod IP 'fe80::1%eth0'",
			"Pod p: it has an unparsable Pod IP 'fe80::1%eth0'",
		},
		{"a pod that is Ready but Pending is none", readyPod("p", "10.0.0.1", phase(corev1.PodPending)), nil, "its phase is Pending, not Running", ""},
		{"a pod without phase is none", readyPod("p", "10.0.0.1", phase("")), nil, "its phase is not set, not Running", ""},
		{"a pod that is not Ready is none", readyPod("p", "10.0.0.1", unready), nil, "it is not Ready: its condition Ready is False", ""},
		{
			"a pod of which it is unknown is none", readyPod("p", "10.0.0.1", ready(corev1.ConditionUnknown)), nil,
			"it is not Ready: its condition Ready is Unknown", "",
		},
		{
			"a pod without conditions is none", readyPod("p", "10.0.0.1", func(p *corev1.Pod) { p.Status.Conditions = nil }), nil,
			"it is not Ready: it has no condition Ready", "",
		},
		{
			"the condition says why", readyPod("p", "10.0.0.1", func(p *corev1.Pod) {
				p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "unready: [w]"}
			}), nil, "it is not Ready: ContainersNotReady: unready: [w]", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, p := regular(), podOf(tt.pod)
			wanted, warnings := s.wanted(&p)
			require.ElementsMatch(t, tt.workers, addresses(wanted))
			reason, fault := p.obstacle()
			require.Equal(t, tt.obstacle, reason)
			require.Equal(t, tt.warning != "", fault)
			require.Equal(t, tt.warning, first(warnings))
		})
	}
}

func first(warnings []string) string {
	if len(warnings) == 0 {
		return ""
	}
	return warnings[0]
}

// discovery.md, section 6: what is submitted
func TestWhatAWorkerOfAPodIsRegisteredWith(t *testing.T) {
	s := regular()
	s.ModelFrom, _ = ParseModelSource("label:model")
	p := podOf(readyPod("p-0", "10.0.0.1", uid("u1"), label("model", "llama"), annotation("smg.ai/worker-ports", "9001, 9000")))
	wanted, warnings := s.wanted(&p)
	require.Empty(t, warnings)
	require.Len(t, wanted, 2)
	w := wanted[0]
	require.Equal(t, Claim{Address: "10.0.0.1:9001", Owner: "u1"}, w.Claim)
	require.Equal(t, "p-0", w.Name)
	require.Equal(t, "ns/p-0", w.Key)
	require.Equal(t, 2026, w.Created.Year())
	want := workers.NewSpec("10.0.0.1:9001") // without a scheme: both protocols are probed
	want.Labels = map[string]string{LabelPodName: "p-0", LabelPodUID: "u1", "served_model_name": "llama"}
	require.Equal(t, want, w.Spec)
	require.Equal(t, "10.0.0.1:9000", wanted[1].Address)

	p = podOf(readyPod("p-0", "10.0.0.1"))
	wanted, _ = s.wanted(&p)
	require.NotContains(t, wanted[0].Spec.Labels, "served_model_name", "without the label the engine's own name counts")
}

// The address that a registration has is the one by which it is claimed.
func TestAClaimIsWhatTheRegistryCallsTheAddress(t *testing.T) {
	for _, ip := range []string{"10.0.0.1", "fd00::1", "::1"} {
		for _, port := range []uint16{80, 443, 8000} {
			s, p := regular(), podOf(readyPod("p", ip))
			s.Port = port
			wanted, _ := s.wanted(&p)
			endpoint, err := workers.ParseEndpoint("http://" + wanted[0].Address)
			require.NoError(t, err)
			require.Equal(t, wanted[0].Address, endpoint.Address)
		}
	}
}
