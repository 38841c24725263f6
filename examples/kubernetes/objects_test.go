package kubernetes_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// object is one of a manifest, as the type that it says it is.
type object struct {
	kind  string // apiVersion/kind
	typed metav1.Object
}

// place is kind, namespace and name, which no two objects share.
func (o object) place() string {
	return o.kind + " " + o.typed.GetNamespace() + "/" + o.typed.GetName()
}

// serviceMonitor is what the chart writes of the Prometheus operator's type, whose module is none of ours.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// types are those that our files may hold.
var types = map[string]func() metav1.Object{
	"v1/Namespace":                                    func() metav1.Object { return new(corev1.Namespace) },
	"v1/ServiceAccount":                               func() metav1.Object { return new(corev1.ServiceAccount) },
	"v1/Service":                                      func() metav1.Object { return new(corev1.Service) },
	"apps/v1/Deployment":                              func() metav1.Object { return new(appsv1.Deployment) },
	"apps/v1/StatefulSet":                             func() metav1.Object { return new(appsv1.StatefulSet) },
	"policy/v1/PodDisruptionBudget":                   func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	"rbac.authorization.k8s.io/v1/Role":               func() metav1.Object { return new(rbacv1.Role) },
	"rbac.authorization.k8s.io/v1/RoleBinding":        func() metav1.Object { return new(rbacv1.RoleBinding) },
	"rbac.authorization.k8s.io/v1/ClusterRole":        func() metav1.Object { return new(rbacv1.ClusterRole) },
	"rbac.authorization.k8s.io/v1/ClusterRoleBinding": func() metav1.Object { return new(rbacv1.ClusterRoleBinding) },
	"monitoring.coreos.com/v1/ServiceMonitor":         func() metav1.Object { return new(serviceMonitor) },
}

var separator = regexp.MustCompile(`(?m)^---$`)

// parse reads manifests strictly: a field that the type does not have, or that is there twice, is an error.
func parse(t *testing.T, text string) (found []object) {
	t.Helper()
	for _, doc := range separator.Split(text, -1) {
		var head metav1.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(doc), &head), doc)
		if head == (metav1.TypeMeta{}) {
			continue // nothing but comments
		}
		kind := head.APIVersion + "/" + head.Kind
		require.Contains(t, types, kind, "teach these tests the type")
		o := object{kind: kind, typed: types[kind]()}
		require.NoError(t, yaml.UnmarshalStrict([]byte(doc), o.typed), doc)
		found = append(found, o)
	}
	return found
}

// files are the manifests of this folder as they are, one after the other: those with the names, or all.
func files(t *testing.T, names ...string) (text string) {
	t.Helper()
	if len(names) == 0 {
		var err error
		names, err = filepath.Glob("*.yaml")
		require.NoError(t, err)
	}
	for _, name := range names {
		of, err := os.ReadFile(name)
		require.NoError(t, err)
		text += "---\n" + string(of)
	}
	return text
}

// manifests are the objects of this folder.
func manifests(t *testing.T) []object {
	t.Helper()
	return parse(t, files(t))
}

// only are the objects of one type.
func only[T metav1.Object](objects []object) (found []T) {
	for _, o := range objects {
		if typed, is := o.typed.(T); is {
			found = append(found, typed)
		}
	}
	return found
}

// workload is a Deployment or a StatefulSet.
type workload struct {
	name     string
	object   metav1.Object
	selector *metav1.LabelSelector
	pod      corev1.PodTemplateSpec
}

func workloads(objects []object) (found []workload) {
	for _, d := range only[*appsv1.Deployment](objects) {
		found = append(found, workload{d.Name, d, d.Spec.Selector, d.Spec.Template})
	}
	for _, s := range only[*appsv1.StatefulSet](objects) {
		found = append(found, workload{s.Name, s, s.Spec.Selector, s.Spec.Template})
	}
	return found
}

// gateways are the workloads that run smg.
func gateways(objects []object) (found []workload) {
	for _, w := range workloads(objects) {
		if w.pod.Spec.ServiceAccountName != "" {
			found = append(found, w)
		}
	}
	return found
}

// arguments are those that a container begins with, variables replaced as a kubelet does.
func arguments(c corev1.Container, namespace string) (args []string) {
	var pairs []string
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
			value = namespace
		}
		pairs = append(pairs, "$("+e.Name+")", value)
	}
	variables := strings.NewReplacer(pairs...)
	for _, a := range c.Args {
		args = append(args, variables.Replace(a))
	}
	return args
}
