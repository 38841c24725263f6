package clustertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// account is the service account that what is tested runs as.
const account = "smg"

// Namespace is a namespace of a test, and the way to change what is in it.
type Namespace struct {
	Name string

	cluster *Cluster
	admin   *admin
}

// Namespace makes a namespace with a service account "smg" that may get, list and watch the pods in it.
func (c *Cluster) Namespace(tb TB) *Namespace {
	tb.Helper()
	n := &Namespace{cluster: c, admin: c.admin(tb)}
	var made struct{ Metadata struct{ Name string } }
	n.admin.must(tb, http.MethodPost, "/api/v1/namespaces", jsonType, object{"metadata": object{"generateName": "smg-"}}, &made)
	n.Name = made.Metadata.Name
	n.newAccount(tb)
	n.admin.must(tb, http.MethodPost, n.rbac("roles"), jsonType, object{"metadata": object{"name": account}, "rules": podRules}, nil)
	n.Grant(tb)
	return n
}

// podRules are all rights that discovery needs: discovery.md, section 15.
var podRules = []object{{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"get", "list", "watch"}}}

func (n *Namespace) path(resource string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/%s", n.Name, resource)
}

func (n *Namespace) rbac(resource string) string {
	return fmt.Sprintf("/apis/rbac.authorization.k8s.io/v1/namespaces/%s/%s", n.Name, resource)
}

// user is what the API server calls the service account.
func (n *Namespace) user() string { return fmt.Sprintf("system:serviceaccount:%s:%s", n.Name, account) }

func (n *Namespace) subjects() []object {
	return []object{{"kind": "ServiceAccount", "name": account, "namespace": n.Name}}
}

func role(kind, name string) object {
	return object{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
}

// Grant lets the service account read the pods of the namespace, as a new namespace does, and waits until the API server heeds it.
func (n *Namespace) Grant(tb TB) {
	tb.Helper()
	binding := object{"metadata": object{"name": account}, "roleRef": role("Role", account), "subjects": n.subjects()}
	n.admin.must(tb, http.MethodPost, n.rbac("rolebindings"), jsonType, binding, nil)
	n.awaitAccess(tb, n.Name, true)
}

// Revoke takes that right away again.
func (n *Namespace) Revoke(tb TB) {
	tb.Helper()
	n.admin.must(tb, http.MethodDelete, n.rbac("rolebindings/"+account), jsonType, nil, nil)
	n.awaitAccess(tb, n.Name, false)
}

// GrantEverywhere lets the service account read the pods of all namespaces.
func (n *Namespace) GrantEverywhere(tb TB) {
	tb.Helper()
	const group = "/apis/rbac.authorization.k8s.io/v1/"
	n.admin.must(tb, http.MethodPost, group+"clusterroles", jsonType, object{"metadata": object{"name": n.Name}, "rules": podRules}, nil)
	binding := object{"metadata": object{"name": n.Name}, "roleRef": role("ClusterRole", n.Name), "subjects": n.subjects()}
	n.admin.must(tb, http.MethodPost, group+"clusterrolebindings", jsonType, binding, nil)
	n.awaitAccess(tb, "", true)
}

// awaitAccess waits until the API server gives or refuses the service account the pods of a namespace, or of all.
func (n *Namespace) awaitAccess(tb TB, namespace string, want bool) {
	tb.Helper()
	question := object{"spec": object{"user": n.user(), "groups": []string{"system:serviceaccounts", "system:authenticated"}, "resourceAttributes": object{
		"namespace": namespace, "verb": "list", "resource": "pods",
	}}}
	for range 1000 {
		var answer struct{ Status struct{ Allowed bool } }
		n.admin.must(tb, http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", jsonType, question, &answer)
		if answer.Status.Allowed == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	tb.Fatalf("%s: access to pods of %q is never %v", n.user(), namespace, want)
}

// Token is a new token of the service account, as a pod's projected volume holds it, good for an hour.
func (n *Namespace) Token(tb TB) string {
	tb.Helper()
	var made struct{ Status struct{ Token string } }
	n.admin.must(tb, http.MethodPost, n.path("serviceaccounts/"+account+"/token"), jsonType, object{"spec": object{"expirationSeconds": 3600}}, &made)
	return made.Status.Token
}

// Reissue makes the service account anew, with the rights that it has: the tokens of the old one are worth nothing from now on, but
// for the seconds that the API server remembers.
func (n *Namespace) Reissue(tb TB) {
	tb.Helper()
	n.admin.must(tb, http.MethodDelete, n.path("serviceaccounts/"+account), jsonType, nil, nil)
	n.newAccount(tb)
}

func (n *Namespace) newAccount(tb TB) {
	tb.Helper()
	n.admin.must(tb, http.MethodPost, n.path("serviceaccounts"), jsonType, object{"metadata": object{"name": account}}, nil)
}

// Kubeconfig writes a kubeconfig file for the service account and returns its path. A nil proxy: it leads to the API server itself.
func (n *Namespace) Kubeconfig(tb TB, through *Proxy) string {
	tb.Helper()
	return n.kubeconfig(tb, through, object{"token": n.Token(tb)})
}

// KubeconfigOf is a kubeconfig file whose token is in a file of its own, as a pod's is, where it can be replaced.
func (n *Namespace) KubeconfigOf(tb TB, through *Proxy, tokenFile string) string {
	tb.Helper()
	return n.kubeconfig(tb, through, object{"tokenFile": tokenFile})
}

func (n *Namespace) kubeconfig(tb TB, through *Proxy, user object) string {
	tb.Helper()
	server := n.cluster.URL
	if through != nil {
		server = through.URL
	}
	config := object{
		"apiVersion": "v1", "kind": "Config", "current-context": account,
		"clusters": []object{{"name": account, "cluster": object{"server": server, "certificate-authority": n.cluster.identity.certFile}}},
		"users":    []object{{"name": account, "user": user}},
		"contexts": []object{{"name": account, "context": object{"cluster": account, "user": account, "namespace": n.Name}}},
	}
	text, err := json.Marshal(config) // JSON is YAML
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
