package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"

	"gopkg.in/yaml.v3"
)

// Apply applies the documents of a manifest as `kubectl apply --server-side` does. What is namespaced and names no namespace goes to
// n. It returns what was applied, as kind/name.
func (n *Namespace) Apply(tb TB, manifest []byte) []string {
	tb.Helper()
	var applied []string
	for documents := yaml.NewDecoder(bytes.NewReader(manifest)); ; {
		var document object
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return applied
		}
		if err != nil {
			tb.Fatalf("manifest: %v", err)
		}
		if document != nil {
			applied = append(applied, n.apply(tb, document))
		}
	}
}

func (n *Namespace) apply(tb TB, document object) string {
	tb.Helper()
	version, _ := document["apiVersion"].(string)
	kind, _ := document["kind"].(string)
	metadata, _ := document["metadata"].(object)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	path, plural, namespaced := n.resource(tb, version, kind)
	if namespaced {
		if namespace == "" {
			namespace = n.Name
		}
		path += "/namespaces/" + namespace
	}
	path += "/" + plural + "/" + name + "?force=true&fieldValidation=Strict&fieldManager=" + url.QueryEscape("clustertest")
	n.admin.must(tb, http.MethodPatch, path, applyType, document, nil)
	return kind + "/" + name
}

// resource asks the API server where a kind lives.
func (n *Namespace) resource(tb TB, version, kind string) (path, plural string, namespaced bool) {
	tb.Helper()
	path = "/apis/" + version
	if !strings.Contains(version, "/") {
		path = "/api/" + version
	}
	var list struct {
		Resources []struct {
			Name, Kind string
			Namespaced bool
		}
	}
	n.admin.must(tb, http.MethodGet, path, jsonType, nil, &list)
	for _, r := range list.Resources {
		if r.Kind == kind && !strings.Contains(r.Name, "/") {
			return path, r.Name, r.Namespaced
		}
	}
	tb.Fatalf("the API server knows no %s %s", version, kind)
	return "", "", false
}

// Get reads an object by its path behind the namespace, such as "pods/p1" or "apps/v1/deployments/engines".
func (n *Namespace) Get(tb TB, what string) map[string]any {
	tb.Helper()
	path := n.path(what)
	if parts := strings.Split(what, "/"); len(parts) == 4 {
		path = fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s/%s", parts[0], parts[1], n.Name, parts[2], parts[3])
	}
	var found object
	n.admin.must(tb, http.MethodGet, path, jsonType, nil, &found)
	return found
}

// Helm renders a chart for a release in this namespace, as `helm template` does: more arguments are --values FILE and --set a=b.
func (n *Namespace) Helm(tb TB, chart string, args ...string) []byte {
	tb.Helper()
	cmd := exec.Command(n.cluster.binary, append([]string{"helm", "template", chart, "--name", "smg", "--namespace", n.Name}, args...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("helm: %v: %s", err, problems.Bytes())
	}
	return out
}
