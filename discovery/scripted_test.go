package discovery

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// apiServer is a real server that knows pods and speaks JSON. It does what a real API server cannot be made to do: a script may
// answer a list or a watch instead of it.
type apiServer struct {
	*httptest.Server
	t testing.TB

	mu      sync.Mutex
	version int
	pods    map[string]*corev1.Pod // by namespace/name
	history []happened
	changed chan struct{} // closed and made anew at each change
	cut     chan struct{} // closed and made anew to end all watches
	cutAt   int           // how much of the history those that end have still to send
	asked   []ask
	token   string            // that a caller must bring; "": none
	script  script            // nil: answer all
	denied  map[string]string // verb: the reason why a review says no
}

// script answers a request, or returns false.
type script func(w http.ResponseWriter, r *http.Request, watch bool) bool

type happened struct {
	version int
	kind    string
	pod     *corev1.Pod
	before  *corev1.Pod
}

// ask is one request for pods.
type ask struct {
	watch bool
	path  string
	query url.Values
	token string
}

func startAPI(t testing.TB, pods ...*corev1.Pod) *apiServer {
	t.Helper()
	a := newAPI(t, pods...)
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.stop)
	return a
}

// startTLS is startAPI with a certificate: tokens go to such a server alone.
func startTLS(t testing.TB, pods ...*corev1.Pod) *apiServer {
	t.Helper()
	a := newAPI(t, pods...)
	a.Server = httptest.NewUnstartedServer(a)
	a.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are meant to fail
	a.StartTLS()
	t.Cleanup(a.stop)
	return a
}

func newAPI(t testing.TB, pods ...*corev1.Pod) *apiServer {
	a := &apiServer{t: t, version: 1000, pods: map[string]*corev1.Pod{}, changed: make(chan struct{}), cut: make(chan struct{})}
	for _, p := range pods {
		a.put(p)
	}
	return a
}

func (a *apiServer) stop() {
	a.CloseClientConnections()
	a.Close()
}

// put adds or changes a pod.
func (a *apiServer) put(p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := p.Namespace + "/" + p.Name
	before := a.pods[key]
	a.version++
	p = p.DeepCopy()
	p.ResourceVersion = strconv.Itoa(a.version)
	a.pods[key] = p
	a.tell("PUT", p, before)
}

// remove takes a pod away at once.
func (a *apiServer) remove(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pods[key].DeepCopy()
	delete(a.pods, key)
	a.version++
	p.ResourceVersion = strconv.Itoa(a.version)
	a.tell("DELETED", p, p)
}

// bookmark lets time pass: versions go by that are none of ours, and the watches are told.
func (a *apiServer) bookmark(versions int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version += versions
	p := &corev1.Pod{}
	p.ResourceVersion = strconv.Itoa(a.version)
	a.tell("BOOKMARK", p, nil)
	return p.ResourceVersion
}

func (a *apiServer) tell(kind string, p, before *corev1.Pod) {
	a.history = append(a.history, happened{a.version, kind, p, before})
	close(a.changed)
	a.changed = make(chan struct{})
}

// cutWatches ends all watches, as a server does when their time is over.
func (a *apiServer) cutWatches() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cutAt = len(a.history)
	close(a.cut)
	a.cut = make(chan struct{})
}

func (a *apiServer) play(s script) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.script = s
}

// asks are the requests for pods so far, lists or watches.
func (a *apiServer) asks(watch bool) []ask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.asked), func(q ask) bool { return q.watch != watch })
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	a.mu.Lock()
	wantedToken := a.token
	a.mu.Unlock()
	switch {
	case wantedToken != "" && token != wantedToken:
		a.note(r, token)
		fail(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
	case r.URL.Path == "/version":
		answer(w, http.StatusOK, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		a.review(w, r)
	case strings.HasSuffix(r.URL.Path, "/pods"):
		watch, s, cut := a.note(r, token)
		switch {
		case s != nil && s(w, r, watch):
		case watch:
			a.watch(w, r, cut)
		default:
			a.list(w, r)
		}
	default:
		fail(w, http.StatusNotFound, "NotFound", r.URL.Path)
	}
}

// note keeps a request that has been made. A watch that has been noted ends at the next cut, also if it has not begun.
func (a *apiServer) note(r *http.Request, token string) (watch bool, s script, cut <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	watch = r.URL.Query().Get("watch") == "true"
	a.asked = append(a.asked, ask{watch, r.URL.Path, r.URL.Query(), token})
	return watch, a.script, a.cut
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, code int, reason, message string) {
	answer(w, code, failure(code, reason, message))
}

func failure(code int, reason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
		Code: int32(code), Reason: metav1.StatusReason(reason), Message: message,
	}
}

// scope is what a request asks for: one namespace or all, and a selector.
func scope(r *http.Request) func(*corev1.Pod) bool {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		panic(err)
	}
	namespace := ""
	if _, rest, ok := strings.Cut(r.URL.Path, "/namespaces/"); ok {
		namespace, _, _ = strings.Cut(rest, "/")
	}
	return func(p *corev1.Pod) bool {
		return p != nil && (namespace == "" || p.Namespace == namespace) && selector.Matches(labels.Set(p.Labels))
	}
}

func (a *apiServer) list(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := scope(r)
	var keys []string
	for key, p := range a.pods {
		if in(p) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if limit == 0 {
		limit = len(keys)
	}
	to := min(from+limit, len(keys))
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}}
	list.ResourceVersion = strconv.Itoa(a.version)
	if to < len(keys) {
		list.Continue = strconv.Itoa(to)
	}
	for _, key := range keys[from:to] {
		list.Items = append(list.Items, *a.pods[key])
	}
	answer(w, http.StatusOK, &list)
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, cut <-chan struct{}) {
	begin(w)
	version, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	in := scope(r)
	send := func(news []happened) {
		for _, h := range news {
			if h.version > version {
				event(w, h.seenBy(in), h.pod)
			}
		}
	}
	for next := 0; ; {
		a.mu.Lock()
		changed, news := a.changed, slices.Clone(a.history[next:])
		a.mu.Unlock()
		send(news)
		next += len(news)
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-cut:
			a.mu.Lock()
			news := slices.Clone(a.history[next:max(next, a.cutAt)])
			a.mu.Unlock()
			send(news)
			return
		}
	}
}

// seenBy is the event that a watch with a selector gets; "" for none.
func (h happened) seenBy(in func(*corev1.Pod) bool) string {
	is, was := in(h.pod), in(h.before)
	switch {
	case h.kind == "BOOKMARK":
		return h.kind
	case h.kind == "DELETED" && is, was && !is:
		return "DELETED"
	case is && was:
		return "MODIFIED"
	case is:
		return "ADDED"
	}
	return ""
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

func event(w http.ResponseWriter, kind string, object any) {
	if kind == "" {
		return
	}
	if p, ok := object.(*corev1.Pod); ok {
		p = p.DeepCopy()
		p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
		object = p
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
	_ = http.NewResponseController(w).Flush()
}

func (a *apiServer) review(w http.ResponseWriter, r *http.Request) {
	var review struct {
		Spec struct {
			ResourceAttributes struct{ Verb, Namespace, Resource string } `json:"resourceAttributes"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Spec.ResourceAttributes.Resource != "pods" {
		fail(w, http.StatusBadRequest, "BadRequest", fmt.Sprint(err))
		return
	}
	reason, no := a.denied[review.Spec.ResourceAttributes.Verb]
	answer(w, http.StatusCreated, map[string]any{
		"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
		"status": map[string]any{"allowed": !no, "reason": reason},
	})
}

// kubeconfig writes one for the server, and what else the user has, in JSON, which is YAML too.
func (a *apiServer) kubeconfig(user string) string {
	path := filepath.Join(a.t.TempDir(), "config")
	authority := ""
	if c := a.Certificate(); c != nil {
		authority = fmt.Sprintf(`, "certificate-authority-data": %q`,
			base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})))
	}
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
		"clusters": [{"name": "k", "cluster": {"server": %q%s}}], "users": [{"name": "u", "user": {%s}}]}`, a.URL, authority, user)
	require.NoError(a.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// sourceOf starts to watch the server, and stops when the test ends.
func sourceOf(t testing.TB, a *apiServer, change func(*KubernetesSettings)) *watched {
	t.Helper()
	s := regular()
	s.Kubeconfig, s.pace = a.kubeconfig(`"token": "t"`), new(defaultPace)
	s.pace.first, s.pace.most, s.pace.short = 1e6, 1e7, 0 // errors are tried again soon, and a watch may be as short as it likes
	if change != nil {
		change(&s)
	}
	w := &watched{t: t, log: newLog()}
	w.Kubernetes = NewKubernetes(s, w.log.logger())
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Watch(ctx, w) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-over, context.Canceled)
	})
	return w
}
