package discovery

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/smg-go/smg/workers"
)

// enginePod is a Ready pod whose worker is a real engine.
func enginePod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"data":[{"id":"m1","owned_by":"vllm"}]}`)
	}))
	t.Cleanup(engine.Close)
	port := engine.Listener.Addr().(*net.TCPAddr).Port
	return readyPod(name, "127.0.0.1", annotation(DefaultWorkerPortsAnnotation, strconv.Itoa(port)))
}

// cases.md, C14, through to the registry: a version that is given up costs no worker, and the new one comes.
func TestC14ThroughTheRegistry(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			a := startAPI(t, enginePod(t, "a"))
			s := regular()
			s.Kubeconfig, s.pace = a.kubeconfig(`"token": "t"`), new(defaultPace)
			s.pace.first, s.pace.short = time.Millisecond, 0
			registry := workers.NewRegistry()
			enroller := workers.NewEnroller(registry, workers.DefaultSettings(), workers.DefaultStartup(), nil)
			defer enroller.Close()
			timing := DefaultSettings()
			timing.Prompt, timing.Gather = time.Millisecond, 20*time.Millisecond
			d := New(NewKubernetes(s, newLog().logger()), registry, enroller, timing)
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() { over <- d.Run(ctx, func() {}) }()
			defer func() { cancel(); require.NoError(t, <-over) }()
			serves := func(uid string) *workers.Worker {
				for _, w := range registry.All() {
					if w.Spec().Labels[LabelPodUID] == uid && w.Candidate() {
						return w
					}
				}
				return nil
			}
			require.Eventually(t, func() bool { return serves("uid-a") != nil && len(a.asks(true)) == 1 }, 20*time.Second, time.Millisecond)
			before := serves("uid-a")
			once := atomic.Bool{}
			a.play(func(rw http.ResponseWriter, r *http.Request, watch bool) bool {
				return watch && once.CompareAndSwap(false, true) && way.say(rw, r, watch)
			})
			a.cutWatches()
			a.put(enginePod(t, "c"))
			require.Eventually(t, func() bool { return serves("uid-c") != nil }, 20*time.Second, time.Millisecond)
			require.Same(t, before, serves("uid-a"), "A serves on without interruption")
			require.Less(t, len(a.asks(false))+len(a.asks(true)), 10)
		})
	}
}
