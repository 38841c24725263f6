package kubernetes_test

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// What each object of these files names is there, and says the same.
func TestManifestsFitTogether(t *testing.T) { requireTogether(t, manifests(t)) }

// discovery.md, section 15: get, list and watch on pods, and nothing else.
func TestRightsAreTheLeast(t *testing.T) { requireLeastRights(t, manifests(t)) }

// cli.md, section 5.6: smg itself reads the arguments of every gateway.
func TestSmgTakesTheArguments(t *testing.T) { requireArguments(t, manifests(t)) }

func requireTogether(t *testing.T, objects []object) {
	t.Helper()
	places := map[string]bool{}
	for _, o := range objects {
		require.False(t, places[o.place()], "%s is there twice", o.place())
		places[o.place()] = true
	}
	all := workloads(objects)
	require.NotEmpty(t, all)
	for _, w := range all {
		require.True(t, selects(t, w.selector, w.pod.Labels), "%s does not select its own pods", w.name)
		requireProbes(t, w)
		if account := w.pod.Spec.ServiceAccountName; account != "" {
			require.True(t, places["v1/ServiceAccount "+w.object.GetNamespace()+"/"+account], "%s runs as %s, which nobody makes", w.name, account)
		}
	}
	for i, w := range all {
		for _, other := range all[i+1:] {
			require.False(t, selects(t, w.selector, other.pod.Labels) || selects(t, other.selector, w.pod.Labels), "%s and %s share pods", w.name, other.name)
		}
	}
	for _, s := range only[*corev1.Service](objects) {
		requireTargets(t, s, all)
	}
	for _, b := range only[*policyv1.PodDisruptionBudget](objects) {
		require.True(t, slices.ContainsFunc(all, func(w workload) bool { return selects(t, b.Spec.Selector, w.pod.Labels) }), "%s selects nobody", b.Name)
	}
	requireBindings(t, objects, places)
}

func selects(t *testing.T, s *metav1.LabelSelector, of map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	require.NoError(t, err)
	return !selector.Empty() && selector.Matches(labels.Set(of))
}

// requireProbes demands that every container is asked whether it is ready, at a port that it has.
func requireProbes(t *testing.T, w workload) {
	t.Helper()
	for _, c := range w.pod.Spec.Containers {
		require.NotNil(t, c.ReadinessProbe, "%s/%s is Ready before it can serve", w.name, c.Name)
		for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
			if p != nil {
				require.NotZero(t, portOf(c, p.HTTPGet.Port.StrVal), "%s/%s has no port %s", w.name, c.Name, p.HTTPGet.Port.StrVal)
			}
		}
	}
}

// portOf is the number of a container's named port, 0 if it has none of that name.
func portOf(c corev1.Container, name string) int32 {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.ContainerPort
		}
	}
	return 0
}

func requireTargets(t *testing.T, s *corev1.Service, all []workload) {
	t.Helper()
	for _, p := range s.Spec.Ports {
		found := false
		for _, w := range all {
			for _, c := range w.pod.Spec.Containers {
				found = found || labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.pod.Labels)) && portOf(c, p.TargetPort.StrVal) != 0
			}
		}
		require.True(t, found, "nobody listens behind port %s of the service %s", p.Name, s.Name)
	}
}

// requireBindings demands that every binding gives a role that is there to an account that is there.
func requireBindings(t *testing.T, objects []object, places map[string]bool) {
	t.Helper()
	given := func(ref rbacv1.RoleRef, namespace string, subjects []rbacv1.Subject) {
		if ref.Kind == "ClusterRole" {
			namespace = ""
		}
		require.True(t, places["rbac.authorization.k8s.io/v1/"+ref.Kind+" "+namespace+"/"+ref.Name], "nobody makes %s %s", ref.Kind, ref.Name)
		for _, s := range subjects {
			require.True(t, places["v1/ServiceAccount "+s.Namespace+"/"+s.Name], "nobody makes the account %s/%s", s.Namespace, s.Name)
		}
	}
	for _, b := range only[*rbacv1.RoleBinding](objects) {
		given(b.RoleRef, b.Namespace, b.Subjects)
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		given(b.RoleRef, "", b.Subjects)
	}
}

func requireLeastRights(t *testing.T, objects []object) {
	t.Helper()
	least := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}}}
	roles := 0
	for _, r := range only[*rbacv1.Role](objects) {
		require.Equal(t, least, r.Rules, r.Name)
		roles++
	}
	for _, r := range only[*rbacv1.ClusterRole](objects) {
		require.Equal(t, least, r.Rules, r.Name)
		roles++
	}
	require.NotZero(t, roles)
}

// requireArguments asks `smg config check` about the arguments of every gateway, and compares the rest of the pod with what it says.
func requireArguments(t *testing.T, objects []object) {
	t.Helper()
	smg := program(t, "smg")
	found := gateways(objects)
	require.NotEmpty(t, found)
	for _, w := range found {
		c := w.pod.Spec.Containers[0]
		args := arguments(c, w.object.GetNamespace())
		out, err := exec.Command(smg, append([]string{"config", "check"}, args...)...).CombinedOutput()
		require.NoError(t, err, "smg refuses %v: %s", args, out)
		config := map[string]any{}
		require.NoError(t, yaml.Unmarshal(out, &config), string(out))
		require.Equal(t, true, config["service-discovery"])
		require.NotEmpty(t, config["selector"])
		require.Equal(t, strconv.Itoa(int(portOf(c, "http"))), text(config, "port", "30000"))
		require.Equal(t, strconv.Itoa(int(portOf(c, "metrics"))), text(config, "prometheus-port", "29000"))
		require.Equal(t, strconv.Itoa(int(portOf(c, "probes"))), text(config, "health-check-port", ""))
		grace, err := strconv.Atoi(text(config, "shutdown-grace-period-secs", "180"))
		require.NoError(t, err)
		require.Greater(t, *w.pod.Spec.TerminationGracePeriodSeconds, int64(grace), "%s: requests in flight would be cut", w.name)
		requireSelects(t, config, objects)
	}
}

// requireSelects demands that the gateway's selector matches the engines of the same manifests, and that their ports are told.
func requireSelects(t *testing.T, config map[string]any, objects []object) {
	t.Helper()
	var pairs []string
	for _, p := range config["selector"].([]any) {
		pairs = append(pairs, p.(string))
	}
	selector, err := labels.Parse(strings.Join(pairs, ","))
	require.NoError(t, err)
	for _, w := range workloads(objects) {
		if w.pod.Spec.ServiceAccountName != "" {
			require.False(t, selector.Matches(labels.Set(w.pod.Labels)), "a gateway would be its own worker")
			continue
		}
		require.True(t, selector.Matches(labels.Set(w.pod.Labels)), "smg does not see %s", w.name)
		told, listens := w.pod.Annotations["smg.ai/worker-ports"], []string{}
		if told == "" {
			told = text(config, "service-discovery-port", "80")
		}
		for _, c := range w.pod.Spec.Containers {
			listens = append(listens, strconv.Itoa(int(c.Ports[0].ContainerPort)))
		}
		require.Equal(t, strings.Join(listens, ","), told, w.name)
	}
}

// text is a value of a configuration in words; one that is not shown has its default.
func text(config map[string]any, name, otherwise string) string {
	switch v := config[name].(type) {
	case float64:
		return strconv.Itoa(int(v))
	case string:
		return v
	}
	return otherwise
}
