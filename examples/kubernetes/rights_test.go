package kubernetes_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/yaml"

	"github.com/smg-go/smg/discovery/clustertest"
)

// requireRights asks the API server, as smg's service account, what that may do: discovery.md, section 15.
func requireRights(t *testing.T, n *clustertest.Namespace, everywhere bool) {
	t.Helper()
	me := loginWith(t, n.Kubeconfig(t, nil))
	for _, verb := range []string{"get", "list", "watch"} {
		require.Eventually(t, func() bool { return me.may(t, verb, "pods", n.Name) }, patience, poll, "%s pods", verb)
		if everywhere {
			require.Eventually(t, func() bool { return me.may(t, verb, "pods", "") }, patience, poll, "%s pods of all namespaces", verb)
		} else {
			require.False(t, me.may(t, verb, "pods", ""), "%s pods of all namespaces", verb)
		}
		require.False(t, me.may(t, verb, "secrets", n.Name), "%s secrets", verb)
		require.False(t, me.may(t, verb, "nodes", ""), "%s nodes", verb)
	}
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		require.False(t, me.may(t, verb, "pods", n.Name), "%s pods", verb)
	}
}

// login is an account of an API server, as a kubeconfig describes it.
type login struct {
	server, token string
	client        *http.Client
}

func loginWith(t *testing.T, kubeconfig string) login {
	t.Helper()
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server    string
				Authority string `json:"certificate-authority"`
			}
		}
		Users []struct{ User struct{ Token string } }
	}
	text, err := os.ReadFile(kubeconfig)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &config))
	authority, err := os.ReadFile(config.Clusters[0].Cluster.Authority)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(authority))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return login{config.Clusters[0].Cluster.Server, config.Users[0].User.Token, &http.Client{Transport: transport, Timeout: patience}}
}

// may is `kubectl auth can-i`. No namespace stands for all of them.
func (l login) may(t *testing.T, verb, resource, namespace string) bool {
	t.Helper()
	var review authorizationv1.SelfSubjectAccessReview
	review.APIVersion, review.Kind = "authorization.k8s.io/v1", "SelfSubjectAccessReview"
	review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace}
	body, err := json.Marshal(review)
	require.NoError(t, err)
	req, err := http.NewRequest(http.MethodPost, l.server+"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+l.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := l.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode, string(answer))
	require.NoError(t, json.Unmarshal(answer, &review))
	return review.Status.Allowed
}
