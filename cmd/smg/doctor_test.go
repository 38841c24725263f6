package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster is an API server that knows some pods and answers all that the doctor asks, and what he is refused.
type cluster struct {
	pods     []string        // JSON objects
	denied   map[string]bool // verbs that a review says no to
	forbids  bool            // lists are refused
	stranger bool            // it knows nobody
}

func (c cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case c.stranger:
		refuse(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"36","gitVersion":"v1.36.3"}`)
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		c.review(w, r)
	case c.forbids:
		refuse(w, http.StatusForbidden, "Forbidden", `pods is forbidden: User "smg" cannot list resource "pods" in API group "" in the namespace "prod"`)
	case r.Method == http.MethodGet && (r.URL.Path == "/api/v1/pods" || r.URL.Path == "/api/v1/namespaces/prod/pods"):
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[%s]}`, strings.Join(c.pods, ","))
	default:
		refuse(w, http.StatusNotFound, "NotFound", "there is no "+r.URL.Path)
	}
}

func (c cluster) review(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Spec struct {
			ResourceAttributes struct{ Verb, Resource string }
		} `json:"spec"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Spec.ResourceAttributes.Resource != "pods" {
		refuse(w, http.StatusBadRequest, "BadRequest", "no review")
		return
	}
	fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%t}}`,
		!c.denied[review.Spec.ResourceAttributes.Verb])
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"code":%d}`, reason, message, status)
}

// aPod is a pod of the namespace prod; more is the rest of its metadata.
func aPod(name, labels, ip, phase, conditions, more string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"prod","uid":"u-%s","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z","labels":{%s}%s},
		"status":{"phase":%q,"podIP":%q,"conditions":[%s]}}`, name, name, labels, more, phase, ip, conditions)
}

const (
	engineLabels = `"app":"engine"`
	isReady      = `{"type":"Ready","status":"True"}`
	isNotReady   = `{"type":"Ready","status":"False","reason":"ContainersNotReady","message":"containers with unready status: [engine]"}`
)

// kubeconfig is a file with the credentials for an API server.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
		"clusters":[{"name":"k","cluster":{"server":"` + url + `"}}],"users":[{"name":"u","user":{"token":"t"}}]}`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// examined runs the doctor. What is different in each run is replaced by CONFIG and SERVER.
func examined(t *testing.T, c cluster, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	s := httptest.NewServer(c)
	defer s.Close()
	config := kubeconfig(t, s.URL)
	var out, errs bytes.Buffer
	words := append([]string{"doctor", "kubernetes", "--service-discovery-kubeconfig", config}, args...)
	code = smg(words, &out, &errs)
	neutral := strings.NewReplacer(config, "CONFIG", s.URL, "SERVER", strings.TrimPrefix(s.URL, "http://"), "ADDRESS")
	return code, neutral.Replace(out.String()), neutral.Replace(errs.String())
}

// In plain words whether smg can list and watch, which pods match, and why others are no workers.
func TestTheDoctorTellsWhatBecomesOfEachPod(t *testing.T) {
	tests := []struct {
		name    string
		cluster cluster
		args    string
		golden  string
		code    int
	}{
		{"all is well", cluster{pods: []string{
			aPod("engine-0", engineLabels, "10.0.0.5", "Running", isReady, `,"annotations":{"smg.ai/worker-ports":"8000,8001"}`),
			aPod("engine-1", engineLabels, "fd00::1", "Running", isReady, ""),
		}}, "--selector app=engine --service-discovery-port 8000", "well", exitOK},
		{"each pod has its reason", cluster{pods: []string{
			aPod("ready", engineLabels, "10.0.0.5", "Running", isReady, ""),
			aPod("unready", engineLabels, "10.0.0.6", "Running", isNotReady, ""),
			aPod("terminating", engineLabels, "10.0.0.7", "Running", isReady, `,"deletionTimestamp":"2026-01-01T01:00:00Z"`),
			aPod("pending", engineLabels, "", "Pending", "", ""),
			aPod("homeless", engineLabels, "", "Running", isReady, ""),
			aPod("done", engineLabels, "10.0.0.8", "Succeeded", isNotReady, ""),
			aPod("other", `"app":"other"`, "10.0.0.9", "Running", isReady, ""),
			aPod("bare", ``, "10.0.0.10", "Running", isReady, ""),
		}}, "--selector app=engine --service-discovery-namespace prod --service-discovery-port 8000", "reasons", exitOK},
		{"a ports annotation that is none", cluster{pods: []string{
			aPod("odd", engineLabels, "10.0.0.5", "Running", isReady, `,"annotations":{"smg.ai/worker-ports":"8080,nope"}`),
		}}, "--selector app=engine", "ports", exitFailed},
		{"one address, two pods", cluster{pods: []string{
			aPod("a", engineLabels, "10.0.0.5", "Running", isReady, ""), aPod("b", engineLabels, "10.0.0.5", "Running", isReady, ""),
		}}, "--selector app=engine", "contest", exitFailed},
		{
			"nobody matches",
			cluster{pods: []string{aPod("other", `"app":"other"`, "10.0.0.9", "Running", isReady, "")}},
			"--selector app=engine tier=gold", "nobody", exitFailed,
		},
		{"an empty namespace", cluster{}, "--selector app=engine --service-discovery-namespace prod", "empty", exitFailed},
		{"no right to watch", cluster{denied: map[string]bool{"watch": true}, pods: []string{
			aPod("engine-0", engineLabels, "10.0.0.5", "Running", isReady, ""),
		}}, "--selector app=engine --service-discovery-namespace prod", "watch", exitFailed},
		{
			"no right to anything",
			cluster{denied: map[string]bool{"list": true, "watch": true}, forbids: true},
			"--selector app=engine --service-discovery-namespace prod", "forbidden", exitFailed,
		},
		{"credentials that nobody knows", cluster{stranger: true}, "--selector app=engine", "stranger", exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := examined(t, tt.cluster, strings.Fields(tt.args)...)
			requireGolden(t, filepath.Join("testdata", "doctor", tt.golden+".txt"), stdout)
			require.Equal(t, tt.code, code, stderr)
			require.Equal(t, map[int]string{exitOK: "", exitFailed: "error: an operator has something to do, see above\n"}[tt.code], stderr)
		})
	}
}

// requireGolden compares text with a file, or rewrites that.
func requireGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// A cluster has many pods that are nobody's business here.
func TestTheDoctorShowsSomeOfThePodsThatDoNotMatch(t *testing.T) {
	c := cluster{pods: []string{aPod("engine-0", engineLabels, "10.0.0.5", "Running", isReady, "")}}
	for i := range 12 {
		c.pods = append(c.pods, aPod(fmt.Sprintf("other-%02d", i), `"app":"other"`, "10.0.1.1", "Running", isReady, ""))
	}
	_, stdout, _ := examined(t, c, "--selector", "app=engine")
	require.Equal(t, 10, strings.Count(stdout, "prod/other-"))
	require.Contains(t, stdout, "and 2 more that do not match (--all shows them)\n")
	require.Contains(t, stdout, "13 pods, 1 matches, 1 worker\n")
	_, stdout, _ = examined(t, c, "--selector", "app=engine", "--all")
	require.Equal(t, 12, strings.Count(stdout, "prod/other-"))
	require.NotContains(t, stdout, "--all")
}

func TestTheDoctorSpeaksJSON(t *testing.T) {
	c := cluster{denied: map[string]bool{"watch": true}, pods: []string{aPod("engine-0", engineLabels, "10.0.0.5", "Running", isReady, "")}}
	code, stdout, stderr := examined(t, c, "--selector", "app=engine", "--json")
	require.Equal(t, exitFailed, code)
	require.Equal(t, "error: an operator has something to do, see above\n", stderr)
	var found struct {
		Server, Version string
		Rights          []struct {
			Verb    string
			Allowed bool
		}
		Pods []struct {
			Name    string
			Workers []string
		}
		Problems []string
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &found), stdout)
	require.Equal(t, "v1.36.3", found.Version)
	require.Equal(t, []string{"10.0.0.5:80"}, found.Pods[0].Workers)
	require.Len(t, found.Rights, 2)
	require.True(t, found.Rights[0].Allowed)
	require.False(t, found.Rights[1].Allowed)
	require.Len(t, found.Problems, 1)
}

// cli.md, section 9: 1 is for what an operator must do, 2 for what cannot be understood.
func TestTheDoctorCannotLookAtEverything(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	tests := []struct {
		name, args, want string
		code             int
	}{
		{"an unknown flag", "--bogus", "error: unknown flag --bogus\nrun 'smg doctor --help' for the flags\n", exitUsage},
		{"no selector", "", "error: invalid --selector: '': regular mode with service discovery requires a non-empty selector\n", exitFailed},
		{"another provider", "--discovery-provider file", "error: invalid --discovery-provider: 'file': finds workers in a file, and there is nothing to look at in Kubernetes\n", exitFailed},
		{"no time", "--selector app=x --timeout 0", "error: invalid --timeout: '0': must be at least 1\n", exitFailed},
		{"no credentials", "--selector app=x --service-discovery-kubeconfig nowhere", "error: the API server cannot be asked: kubeconfig nowhere is not there, or names no cluster\n", exitFailed},
		{"nobody there", "--selector app=x --service-discovery-kubeconfig " + kubeconfig(t, gone.URL), "error: an operator has something to do, see above\n", exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := smg(append([]string{"doctor", "kubernetes"}, strings.Fields(tt.args)...), &stdout, &stderr)
			require.Equal(t, tt.want, stderr.String())
			require.Equal(t, tt.code, code)
		})
	}
}

// An API server that never answers does not keep the doctor waiting.
func TestTheDoctorGivesUp(t *testing.T) {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer s.Close()
	defer close(over)
	var stdout, stderr bytes.Buffer
	code := smg([]string{"doctor", "kubernetes", "--selector", "app=x", "--timeout", "1", "--service-discovery-kubeconfig", kubeconfig(t, s.URL)}, &stdout, &stderr)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), "has not answered everything within 1s\n")
}
