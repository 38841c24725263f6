package discovery

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/smg-go/smg/telemetry"
)

// discovery.md, sections 5 and 15
func TestPodsAreListedOnceAndWatchedFromThere(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"), readyPod("other", "10.0.0.9", label("app", "x")))
	w := sourceOf(t, a, nil)
	w.becomes("10.0.0.1:8000")
	require.Equal(t, []Change{{Alters: true, Claimed: []Claim{{"10.0.0.1:8000", "uid-a"}}}}, w.told())

	steps := []struct {
		name   string
		do     func()
		wanted []string
		told   Change
	}{
		{
			"a pod that appears is wanted", func() { a.put(readyPod("b", "10.0.0.2")) },
			[]string{"10.0.0.1:8000", "10.0.0.2:8000"},
			Change{Alters: true, Claimed: []Claim{{"10.0.0.2:8000", "uid-b"}}},
		},
		{
			"a change of which no worker is made alters nothing", func() { a.put(readyPod("b", "10.0.0.2", label("note", "x"))) },
			[]string{"10.0.0.1:8000", "10.0.0.2:8000"},
			Change{},
		},
		{
			"a pod that turns unready is withdrawn", func() { a.put(readyPod("b", "10.0.0.2", unready)) },
			[]string{"10.0.0.1:8000"},
			Change{Alters: true, Withdrawn: []Claim{{"10.0.0.2:8000", "uid-b"}}},
		},
		{
			"a pod that is Ready again is claimed again", func() { a.put(readyPod("b", "10.0.0.2")) },
			[]string{"10.0.0.1:8000", "10.0.0.2:8000"},
			Change{Alters: true, Claimed: []Claim{{"10.0.0.2:8000", "uid-b"}}},
		},
		{
			"another port is another worker", func() { a.put(readyPod("b", "10.0.0.2", annotation("smg.ai/worker-ports", "8000,9000"))) },
			[]string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.2:9000"},
			Change{Alters: true, Claimed: []Claim{{"10.0.0.2:9000", "uid-b"}}},
		},
		{
			"a pod whose labels stop to match is withdrawn", func() { a.put(readyPod("b", "10.0.0.2", label("app", "x"))) },
			[]string{"10.0.0.1:8000"},
			Change{Alters: true, Withdrawn: []Claim{{"10.0.0.2:8000", "uid-b"}, {"10.0.0.2:9000", "uid-b"}}},
		},
		{
			"a pod that is replaced in one step belongs to another", func() { a.put(readyPod("a", "10.0.0.1", uid("u2"))) },
			[]string{"10.0.0.1:8000"},
			Change{Alters: true, Withdrawn: []Claim{{"10.0.0.1:8000", "uid-a"}}, Claimed: []Claim{{"10.0.0.1:8000", "u2"}}},
		},
		{
			"a pod that is terminating is withdrawn", func() { a.put(readyPod("a", "10.0.0.1", uid("u2"), deleting(time.Unix(1, 0)))) },
			[]string{},
			Change{Alters: true, Withdrawn: []Claim{{"10.0.0.1:8000", "u2"}}},
		},
	}
	for _, step := range steps {
		step.do()
		require.Equal(t, []Change{step.told}, w.told(), step.name)
		require.Equal(t, step.wanted, w.now(), step.name)
	}
	require.Len(t, a.asks(false), 1)
	require.Len(t, a.asks(true), 1)
	list := a.asks(false)[0]
	require.Equal(t, "/api/v1/pods", list.path)
	require.Equal(t, "app=w", list.query.Get("labelSelector"))
	require.Equal(t, "500", list.query.Get("limit"))
	require.Empty(t, list.query.Get("resourceVersion"))
	watch := a.asks(true)[0]
	require.Equal(t, "true", watch.query.Get("allowWatchBookmarks"))
	life, err := strconv.Atoi(watch.query.Get("timeoutSeconds"))
	require.NoError(t, err)
	require.LessOrEqual(t, life, 295)
	require.Greater(t, life, 200)
	for _, line := range []string{"Starting K8s service discovery | selector: 'app=w'", "Starting K8s worker watcher | selector: 'app=w'", "K8s worker store synced, reconciling on change and every 60s"} {
		require.Equal(t, 1, w.log.times(line), line)
	}
}

// discovery.md, section 15: several namespaces
func TestEachNamespaceHasAListAndAWatchOfItsOwn(t *testing.T) {
	in := func(ns string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Namespace = ns } }
	a := startAPI(t, readyPod("a", "10.0.0.1", in("one")), readyPod("b", "10.0.0.2", in("two")), readyPod("c", "10.0.0.3", in("three")))
	refuse := atomic.Bool{}
	refuse.Store(true)
	a.play(func(w http.ResponseWriter, r *http.Request, _ bool) bool {
		no := refuse.Load() && strings.Contains(r.URL.Path, "/two/")
		if no {
			fail(w, http.StatusForbidden, "Forbidden", "pods is forbidden")
		}
		return no
	})
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.Namespaces = []string{"one", "two", "one"} })
	w.until(func() bool { return w.log.times("pods is forbidden") > 0 && w.stores[0].listed() }, "one namespace is there, the other refused")
	require.Nil(t, w.now(), "half of what is wanted is nothing")
	refuse.Store(false)
	w.becomes("10.0.0.1:8000", "10.0.0.2:8000")
	for _, q := range append(a.asks(false), a.asks(true)...) {
		require.Contains(t, []string{"/api/v1/namespaces/one/pods", "/api/v1/namespaces/two/pods"}, q.path)
	}
	require.Equal(t, 1, w.log.times("store synced"))
}

// discovery.md, section 21
func TestD41AListOfWhichAPageHasExpiredIsReadAnewFromItsBeginning(t *testing.T) {
	a := startAPI(t)
	for i := range 1200 {
		a.put(readyPod(fmt.Sprintf("p%04d", i), fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)))
	}
	var sizes []int // at each third page
	gone := atomic.Int32{}
	var w *watched
	begun := make(chan struct{})
	a.play(func(rw http.ResponseWriter, r *http.Request, watch bool) bool {
		if watch || r.URL.Query().Get("continue") != "1000" {
			return false
		}
		<-begun
		sizes = append(sizes, len(w.now()))
		if gone.Add(1) > 1 {
			return false
		}
		fail(rw, http.StatusGone, "Expired", "The provided continue parameter is too old")
		return true
	})
	w = sourceOf(t, a, nil)
	close(begun)
	w.until(func() bool { return len(w.now()) == 1200 }, "all pods are wanted")
	require.Equal(t, []int{0, 0}, sizes, "what is wanted is never computed from a part")
	require.Len(t, a.asks(false), 6)
	require.Equal(t, 1, w.log.times("listing again"))

	gone.Store(0)
	a.play(nil)
	require.Len(t, w.told(), 1)
}

// discovery.md, section 21
func TestD42AWatchIsResumedAtTheVersionOfABookmark(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	w := sourceOf(t, a, nil)
	w.becomes("10.0.0.1:8000")
	w.until(func() bool { return len(a.asks(true)) == 1 }, "it is watched")
	a.bookmark(500)
	last := a.bookmark(500)
	compacted := func(rw http.ResponseWriter, r *http.Request, watch bool) bool {
		old := watch && r.URL.Query().Get("resourceVersion") < last
		if old {
			fail(rw, http.StatusGone, "Expired", "too old resource version")
		}
		return old
	}
	a.play(compacted)
	a.cutWatches()
	w.until(func() bool { return len(a.asks(true)) == 2 }, "it is watched again")
	require.Equal(t, last, a.asks(true)[1].query.Get("resourceVersion"))
	a.put(readyPod("b", "10.0.0.2"))
	w.becomes("10.0.0.1:8000", "10.0.0.2:8000")
	require.Len(t, a.asks(false), 1)
}

// ways in which a server says that it does not know a version.
var ways = []struct {
	name string
	say  script
}{
	{"410 as the status", func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		fail(w, http.StatusGone, "Expired", "too old resource version: 1 (2)")
		return true
	}},
	{"410 as an event", func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
		if !watch {
			fail(w, http.StatusGone, "Expired", "too old resource version: 1 (2)")
			return true
		}
		begin(w)
		event(w, "ERROR", failure(http.StatusGone, "Expired", "too old resource version: 1 (2)"))
		return true
	}},
	{"410 without a reason, as an event", func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		begin(w)
		event(w, "ERROR", failure(http.StatusGone, "Gone", "gone"))
		return true
	}},
	{"504 Too large resource version", func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
		fail(w, http.StatusGatewayTimeout, "Timeout", "Timeout: Too large resource version: 9, current: 8")
		return true
	}},
}

// discovery.md, section 21; DECISIONS.md 52
func TestD45AVersionThatIsNotKnownAnyMoreIsListedOnce(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			a := startAPI(t, readyPod("a", "10.0.0.1"))
			w := sourceOf(t, a, nil)
			w.becomes("10.0.0.1:8000")
			w.until(func() bool { return len(a.asks(true)) == 1 }, "it is watched")
			once := atomic.Bool{}
			a.play(func(rw http.ResponseWriter, r *http.Request, watch bool) bool {
				return watch && once.CompareAndSwap(false, true) && way.say(rw, r, watch)
			})
			a.cutWatches()
			w.until(func() bool { return len(a.asks(true)) == 3 }, "it is watched again")
			require.Len(t, a.asks(false), 2)
			a.put(readyPod("c", "10.0.0.3"))
			w.becomes("10.0.0.1:8000", "10.0.0.3:8000")
			require.Len(t, a.asks(false), 2)
			require.Equal(t, 1, w.log.times("listing again"))
			require.Zero(t, w.log.times("level=ERROR"))
		})
	}
}

// cases.md, C14
func TestC14AStaleVersionIsGivenUp(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			a := startAPI(t, readyPod("a", "10.0.0.1"))
			w := sourceOf(t, a, nil)
			w.becomes("10.0.0.1:8000")
			w.until(func() bool { return len(a.asks(true)) == 1 }, "it is watched")
			stale := a.bookmark(0)
			a.play(func(rw http.ResponseWriter, r *http.Request, watch bool) bool {
				v := r.URL.Query().Get("resourceVersion")
				return v != "" && v <= stale && way.say(rw, r, watch)
			})
			lost := atomic.Int32{}
			w.mu.Lock()
			w.onTold = func(c Change) { lost.Add(int32(len(c.Withdrawn))) }
			w.mu.Unlock()
			a.put(readyPod("unseen", "10.0.0.2", label("app", "x")))
			a.cutWatches()
			a.put(readyPod("c", "10.0.0.3"))
			w.becomes("10.0.0.1:8000", "10.0.0.3:8000")
			w.until(func() bool {
				return slices.ContainsFunc(a.asks(true)[1:], func(q ask) bool { return q.query.Get("resourceVersion") > stale })
			}, "it is watched again")
			require.Zero(t, lost.Load(), "A serves on without interruption")
			require.Less(t, len(a.asks(false))+len(a.asks(true)), 10)
		})
	}
}

// Watch closed every second. discovery.md, section 5
func TestAWatchThatEndsIsTakenUpWhereItEnded(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	w := sourceOf(t, a, nil)
	w.becomes("10.0.0.1:8000")
	want := []string{"10.0.0.1:8000"}
	for i := range 20 {
		w.until(func() bool { return len(a.asks(true)) > i }, "it is watched")
		a.cutWatches()
		a.put(readyPod(fmt.Sprintf("p%d", i), fmt.Sprintf("10.0.1.%d", i)))
		want = append(want, fmt.Sprintf("10.0.1.%d:8000", i))
		slices.Sort(want)
		w.becomes(want...)
	}
	require.Len(t, a.asks(false), 1)
	require.Zero(t, w.log.times("level=ERROR"))
}

// discovery.md, section 5
func TestAWatchThatComesToNothingIsAnError(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	a.play(func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
		if watch {
			begin(w)
		}
		return watch
	})
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.pace.short, s.pace.first, s.pace.most = time.Hour, time.Hour, time.Hour })
	w.until(func() bool {
		return w.log.times("K8s worker watcher error (auto-retrying with backoff): the watch ended at once") == 1
	}, "it is told")
	require.Len(t, a.asks(true), 1)
	require.Equal(t, []string{"10.0.0.1:8000"}, w.now())
}

// discovery.md, sections 5 and 19: bad input and faults
func TestWhatTheServerRefusesLeavesTheWorkersAsTheyAre(t *testing.T) {
	status := func(code int, reason string) script {
		return func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
			fail(w, code, reason, "no: "+reason)
			return true
		}
	}
	tests := []struct {
		name   string
		refuse script
		line   string // that is logged
	}{
		{"403: the rights are gone", status(http.StatusForbidden, "Forbidden"), "no: Forbidden"},
		{"500", status(http.StatusInternalServerError, "InternalError"), "no: InternalError"},
		{"503: it starts", status(http.StatusServiceUnavailable, "ServiceUnavailable"), "no: ServiceUnavailable"},
		{"429: it has too much to do", status(http.StatusTooManyRequests, "TooManyRequests"), "no: TooManyRequests"},
		{"something that is no JSON", func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
			begin(w)
			_, _ = w.Write([]byte("<html>"))
			return true
		}, "level=ERROR"},
		{"an empty answer of another kind", func(w http.ResponseWriter, _ *http.Request, _ bool) bool {
			answer(w, http.StatusOK, map[string]string{"kind": "Pod", "apiVersion": "v1"})
			return true
		}, "level=ERROR"},
		{"a list without a version", func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
			if watch {
				fail(w, http.StatusGone, "Expired", "too old resource version")
				return true
			}
			answer(w, http.StatusOK, &corev1.PodList{})
			return true
		}, "the list has no version to watch from"},
		{"an error as an event", func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
			begin(w)
			event(w, "ERROR", failure(http.StatusInternalServerError, "InternalError", "etcd is away"))
			return true
		}, "etcd is away"},
		{"an answer that never comes", func(_ http.ResponseWriter, r *http.Request, _ bool) bool { <-r.Context().Done(); return true }, "level=ERROR"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := startAPI(t, readyPod("a", "10.0.0.1"))
			metrics := telemetry.NewMetrics(telemetry.Options{}).Discovery
			w := sourceOf(t, a, func(s *KubernetesSettings) {
				s.Metrics, s.pace.list, s.pace.short = metrics, 50*time.Millisecond, time.Second
			})
			w.becomes("10.0.0.1:8000")
			w.until(func() bool { return len(a.asks(true)) > 0 }, "it is watched")
			w.told()
			a.play(tt.refuse)
			a.CloseClientConnections()
			w.until(func() bool { return w.log.times(tt.line) > 2 }, "it is tried again and again: %s", tt.line)
			require.Equal(t, []string{"10.0.0.1:8000"}, w.now())
			require.Empty(t, w.news())
			a.put(readyPod("b", "10.0.0.2"))
			a.play(nil)
			w.becomes("10.0.0.1:8000", "10.0.0.2:8000")
		})
	}
}

// API server down at start, and later
func TestAServerThatIsNotThereIsWaitedFor(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	down := atomic.Bool{}
	down.Store(true)
	a.play(func(http.ResponseWriter, *http.Request, bool) bool {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	metrics := telemetry.NewMetrics(telemetry.Options{}).Discovery
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.Metrics = metrics })
	w.until(func() bool { return w.log.times("auto-retrying with backoff") > 2 }, "it is tried again")
	require.Nil(t, w.now())
	down.Store(false)
	w.becomes("10.0.0.1:8000")
	require.Zero(t, w.log.times("WARN"))
}

// discovery.md, section 15: 401 with a rotated token file
func TestATokenFileThatRotatesIsReadAgain(t *testing.T) {
	a := startTLS(t, readyPod("a", "10.0.0.1"))
	a.token = "t1"
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("t1\n"), 0o600))
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.Kubeconfig = a.kubeconfig(fmt.Sprintf(`"tokenFile": %q`, file)) })
	w.becomes("10.0.0.1:8000")
	w.until(func() bool { return len(a.asks(true)) > 0 }, "it is watched")
	a.mu.Lock()
	a.token = "t2"
	a.mu.Unlock()
	a.cutWatches()
	w.until(func() bool { return w.log.times("Unauthorized") > 0 }, "it is refused")
	require.Equal(t, []string{"10.0.0.1:8000"}, w.now())
	require.NoError(t, os.WriteFile(file, []byte("t2\n"), 0o600))
	a.put(readyPod("b", "10.0.0.2"))
	w.becomes("10.0.0.1:8000", "10.0.0.2:8000")
	require.Len(t, a.asks(false), 1)
}

// A kubeconfig with another token is no rotated file, and yet heals.
func TestAKubeconfigThatIsRewrittenIsReadAgain(t *testing.T) {
	a := startTLS(t, readyPod("a", "10.0.0.1"))
	a.token = "t2"
	config := a.kubeconfig(`"token": "t1"`)
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.Kubeconfig = config })
	w.until(func() bool { return w.log.times("Unauthorized") > 0 }, "it is refused")
	require.NoError(t, os.Rename(a.kubeconfig(`"token": "t2"`), config))
	w.becomes("10.0.0.1:8000")
}

// DECISIONS.md 9; discovery.md, section 15
func TestCredentialsThatComeLateAreTaken(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	config := filepath.Join(t.TempDir(), "late")
	require.ErrorContains(t, CheckCredentials(config), "is not there, or names no cluster")
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.Kubeconfig, s.pace.reconnect = config, time.Millisecond })
	w.until(func() bool { return w.log.times("Continuing without service discovery") == 1 }, "it is told")
	require.Nil(t, w.now())
	require.NoError(t, os.Rename(a.kubeconfig(`"token": "t"`), config))
	w.becomes("10.0.0.1:8000")
	require.NoError(t, CheckCredentials(config))
	require.Equal(t, 1, w.log.times("Failed to start service discovery: kubeconfig "+config), "told once, not every time")
}

// A watch that neither brings anything nor ends when it should is given up, and taken up where it was.
func TestAWatchThatIsSilentForTooLongIsGivenUp(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	stalled := atomic.Int32{}
	a.play(func(w http.ResponseWriter, r *http.Request, watch bool) bool {
		if !watch || stalled.Add(1) > 1 {
			return false
		}
		begin(w)
		<-r.Context().Done()
		return true
	})
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.pace.watch, s.pace.slack = time.Second, time.Millisecond })
	w.until(func() bool { return w.log.times("the watch was silent") == 1 }, "it is given up")
	a.put(readyPod("b", "10.0.0.2"))
	w.becomes("10.0.0.1:8000", "10.0.0.2:8000")
	require.Len(t, a.asks(false), 1)
}

// discovery.md, section 18: once for each pod uid and value
func TestWhatIsWrongWithAPodIsToldOnce(t *testing.T) {
	const line = "invalid smg.ai/worker-ports annotation 'nope'"
	bad := annotation("smg.ai/worker-ports", "nope")
	a := startAPI(t, readyPod("a", "10.0.0.1", bad), readyPod("last", "10.0.0.9"))
	w := sourceOf(t, a, nil)
	marks := 0
	settle := func() { // what came before the mark has been seen when the mark is
		marks++
		a.put(readyPod("last", fmt.Sprintf("10.0.9.%d", marks)))
		w.until(func() bool { return slices.Contains(w.now(), fmt.Sprintf("10.0.9.%d:8000", marks)) }, "the mark is seen")
	}
	settle()
	require.Equal(t, 1, w.log.times(line))
	a.put(readyPod("a", "10.0.0.1", bad, label("x", "y")))
	a.put(readyPod("a", "10.0.0.1", bad, unready))
	a.put(readyPod("a", "10.0.0.1", bad))
	settle()
	require.Equal(t, 1, w.log.times(line), "the same value of the same pod")
	a.put(readyPod("a", "10.0.0.1", annotation("smg.ai/worker-ports", "0")))
	settle()
	require.Equal(t, 1, w.log.times("invalid smg.ai/worker-ports annotation '0'"), "another value")
	a.remove("ns/a")
	a.put(readyPod("a", "10.0.0.1", bad))
	settle()
	require.Equal(t, 2, w.log.times(line), "forgotten with the pod")
	a.put(readyPod("a", "10.0.0.1", bad, uid("u2")))
	settle()
	require.Equal(t, 3, w.log.times(line), "another pod of the same name")
}

// DECISIONS.md 52
func TestAListThatLacksMoreThanHalfOfTheWorkersNeedsASecond(t *testing.T) {
	for _, second := range []string{"agrees", "does not agree"} {
		t.Run("the second "+second, func(t *testing.T) {
			a := startAPI(t, readyPod("a", "10.0.0.1"), readyPod("b", "10.0.0.2"), readyPod("c", "10.0.0.3"))
			w := sourceOf(t, a, func(s *KubernetesSettings) { s.pace.confirm = 300 * time.Millisecond })
			w.becomes("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")
			w.until(func() bool { return len(a.asks(true)) == 1 }, "it is watched")
			lists, expire := atomic.Int32{}, atomic.Bool{}
			expire.Store(true)
			a.play(func(rw http.ResponseWriter, _ *http.Request, watch bool) bool {
				if watch {
					old := expire.CompareAndSwap(true, false)
					if old {
						fail(rw, http.StatusGone, "Expired", "too old resource version")
					}
					return old
				}
				empty := lists.Add(1) == 1 || second == "agrees"
				if empty {
					answer(rw, http.StatusOK, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "2000"}})
				}
				return empty
			})
			w.told()
			a.cutWatches()
			w.until(func() bool { return w.log.times("K8s list lacks 3 worker(s), more than half") == 1 }, "it is told")
			require.Equal(t, []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"}, w.now())
			if second == "agrees" {
				w.becomes()
				return
			}
			w.until(func() bool { return lists.Load() == 2 && len(w.news()) > 0 }, "it is listed once more")
			require.Equal(t, []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"}, w.now())
		})
	}
}

// 10,000 pods of which 3 match
func TestPodsThatDoNotMatchAreNeitherSentNorKept(t *testing.T) {
	a := startAPI(t)
	for i := range 10_000 {
		a.put(readyPod(fmt.Sprintf("x%d", i), "10.1.0.1", label("app", "x")))
	}
	for i := range 3 {
		a.put(readyPod(fmt.Sprintf("w%d", i), fmt.Sprintf("10.0.0.%d", i+1)))
	}
	w := sourceOf(t, a, nil)
	w.becomes("10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000")
	require.Len(t, a.asks(false), 1, "they would be 21 pages")
	require.Len(t, w.stores[0].pods, 3)
}

// Case C14: a server that does not know the version of its own lists is not asked without end.
func TestC14AVersionThatIsNeverKnownIsNoHotLoop(t *testing.T) {
	a := startAPI(t, readyPod("a", "10.0.0.1"))
	a.play(func(w http.ResponseWriter, _ *http.Request, watch bool) bool {
		if watch {
			fail(w, http.StatusGone, "Expired", "too old resource version")
		}
		return watch
	})
	w := sourceOf(t, a, func(s *KubernetesSettings) { s.pace.first, s.pace.most = 20*time.Millisecond, 20*time.Millisecond })
	w.becomes("10.0.0.1:8000")
	w.until(func() bool { return w.log.times("auto-retrying with backoff") >= 5 }, "it is tried again and again")
	a.play(nil)
	retries := w.log.times("auto-retrying with backoff")
	require.LessOrEqual(t, len(a.asks(false)), retries+3, "a list for each wait, and the first two")
	w.until(func() bool { return len(a.asks(true)) > 0 }, "it is watched in the end")
}
