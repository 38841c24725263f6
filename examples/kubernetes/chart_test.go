package kubernetes_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/smg-go/smg/discovery/clustertest"
)

const chart = "../helm"

// render is what `helm template` makes of the chart with some values, and what it says if it refuses them.
func render(t *testing.T, values ...string) (text string, err error) {
	t.Helper()
	binary := os.Getenv(clustertest.Variable)
	if binary == "" {
		t.Skipf("left out: the chart in helm; %s=$(.ci/testcluster) builds a binary that has it", clustertest.Variable)
	}
	args := []string{"helm", "template", chart, "--name=smg", "--namespace=llm"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	var failure strings.Builder
	cmd := exec.Command(binary, args...)
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return failure.String(), err
	}
	return string(out), nil
}

// rendered are the objects of the chart with some values.
func rendered(t *testing.T, values ...string) []object {
	t.Helper()
	text, err := render(t, values...)
	require.NoError(t, err, text)
	return parse(t, text)
}

// choices are ways to use the chart that make other objects.
var choices = []struct {
	name   string
	values []string
}{
	{"as it is, for engines of its own namespace", nil},
	{"for engines in two other namespaces", []string{"discovery.namespaces={blue,green}"}},
	{"for engines in any namespace", []string{"discovery.clusterWide=true"}},
	{"with everything else", []string{
		"replicas=1", "image.tag=1.2.3", "discovery.selector.tier=gold", "discovery.port=9000", "discovery.workerPortsAnnotation=example.org/ports",
		"discovery.modelIdFrom=label:model", "auth.existingSecret=keys", "extraArgs={--policy=least_load,--log-level=warn}", "gracePeriodSeconds=1000000",
		"extraEnv[0].name=SMG_LOG", "extraEnv[0].value=info", "goMemLimit=", "service.type=LoadBalancer", "service.annotations.a=b",
		"serviceAccount.name=other", "serviceAccount.annotations.a=b", "podDisruptionBudget.maxUnavailable=50%", "serviceMonitor.enabled=true",
		"serviceMonitor.labels.release=prometheus", "podAnnotations.a=b", "podLabels.c=d", "nodeSelector.disk=fast", "priorityClassName=high",
		"tolerations[0].key=gpu", "tolerations[0].operator=Exists", "imagePullSecrets[0].name=registry",
	}},
}

// What the chart makes is held to the same as the manifests: types, names, rights and flags.
func TestTheChartMakesWholeManifests(t *testing.T) {
	for _, tt := range choices {
		t.Run(tt.name, func(t *testing.T) {
			objects := rendered(t, append([]string{"discovery.selector.app=engine"}, tt.values...)...)
			requireTogether(t, objects)
			requireLeastRights(t, objects)
			requireArguments(t, objects)
		})
	}
}

// discovery.md, section 15: a Role in each namespace that is watched, and a ClusterRole for all of them alone.
func TestTheChartGrantsWhereItWatches(t *testing.T) {
	const selector = "discovery.selector.app=engine"
	granted := func(values ...string) (namespaces []string, everywhere bool) {
		objects := rendered(t, append(values, selector)...)
		for _, b := range only[*rbacv1.RoleBinding](objects) {
			namespaces = append(namespaces, b.Namespace)
			require.Equal(t, "llm", b.Subjects[0].Namespace)
		}
		return namespaces, len(only[*rbacv1.ClusterRoleBinding](objects)) == 1
	}
	own, everywhere := granted()
	require.Equal(t, []string{"llm"}, own)
	require.False(t, everywhere)
	two, everywhere := granted("discovery.namespaces={blue,green}")
	require.Equal(t, []string{"blue", "green"}, two)
	require.False(t, everywhere)
	none, everywhere := granted("discovery.clusterWide=true")
	require.Empty(t, none)
	require.True(t, everywhere)
	none, everywhere = granted("rbac.create=false")
	require.Empty(t, none)
	require.False(t, everywhere)
}

// Wrong values are refused with a sentence that names the value.
func TestTheChartRefusesWrongValues(t *testing.T) {
	const selector = "discovery.selector.app=engine"
	tests := []struct {
		name   string
		values []string
		want   string
	}{
		{"no selector", nil, "discovery.selector is empty: say which labels the pods of your engines have"},
		{"a misspelt name", []string{selector, "replica=3"}, "additional properties 'replica' not allowed"},
		{"a text for a number", []string{selector, "replicas=many"}, "at '/replicas': got string, want integer"},
		{"a number for a tag", []string{selector, "image.tag=12"}, "at '/image/tag': got number, want string"},
		{"a port that does not exist", []string{selector, "discovery.port=65536"}, "at '/discovery/port': maximum: got 65,536, want 65,535"},
		{"a label that cannot be", []string{"discovery.selector.app=a b"}, "at '/discovery/selector/app': 'a b' does not match pattern"},
		{"a namespace that cannot be", []string{selector, "discovery.namespaces={A_B}"}, "at '/discovery/namespaces/0': 'A_B' does not match pattern"},
		{"all namespaces and some", []string{selector, "discovery.clusterWide=true", "discovery.namespaces={a}"}, "set it, or name some in discovery.namespaces, but not both"},
		{"a source of model names without its key", []string{selector, "discovery.modelIdFrom=label:"}, "at '/discovery/modelIdFrom': 'label:' does not match pattern"},
		{"a negative time", []string{selector, "gracePeriodSeconds=-1"}, "at '/gracePeriodSeconds': minimum: got -1, want 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, err := render(t, tt.values...)
			require.Error(t, err, text)
			require.Contains(t, text, tt.want)
		})
	}
}

// A key is read from a Secret, never written into the manifests.
func TestTheChartTakesTheKeyFromASecret(t *testing.T) {
	objects := rendered(t, "discovery.selector.app=engine", "auth.existingSecret=keys", "auth.key=smg")
	require.Empty(t, only[*corev1.Secret](objects))
	found := gateways(objects)
	require.Len(t, found, 1)
	for _, e := range found[0].pod.Spec.Containers[0].Env {
		if e.Name == "SMG_FLAG_API_KEY" {
			require.Equal(t, "keys", e.ValueFrom.SecretKeyRef.Name)
			require.Equal(t, "smg", e.ValueFrom.SecretKeyRef.Key)
			return
		}
	}
	t.Fatal("smg gets no key")
}

// schema is what these tests read of a JSON schema.
type schema struct {
	Type                 string
	Properties           map[string]schema
	Required             []string
	AdditionalProperties any
}

// Without helm: whatever has a default is in the schema, and the other way round, so that values.yaml lists all there is.
func TestValuesAreThoseOfTheSchema(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	require.NoError(t, err)
	var s schema
	require.NoError(t, json.Unmarshal(text, &s))
	delete(s.Properties, "global") // helm's own
	text, err = os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.UnmarshalStrict(text, &values))
	requireSame(t, "", s, values)
}

func requireSame(t *testing.T, at string, s schema, values map[string]any) {
	t.Helper()
	require.Equal(t, false, s.AdditionalProperties, "%s: a misspelt name would be ignored", at)
	for name, value := range values {
		of, known := s.Properties[name]
		require.True(t, known, "values.schema.json does not know %s/%s", at, name)
		if inner, is := value.(map[string]any); is && len(inner) > 0 && name != "resources" {
			requireSame(t, at+"/"+name, of, inner)
		}
	}
	for name := range s.Properties {
		if at != "/resources" {
			require.Contains(t, values, name, "values.yaml does not show %s/%s", at, name)
		}
	}
}

// Chart.yaml, without helm: the fields that it needs, and no others.
func TestTheChartSaysWhatItIs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "Chart.yaml"))
	require.NoError(t, err)
	var c struct{ APIVersion, Name, Description, Type, Version, AppVersion, KubeVersion string }
	require.NoError(t, yaml.UnmarshalStrict(text, &c))
	require.Equal(t, "v2", c.APIVersion)
	require.Equal(t, "smg", c.Name)
	require.Equal(t, "application", c.Type)
	require.Regexp(t, `^\d+\.\d+\.\d+$`, c.Version)
}
