package discovery_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
)

// asSource makes a process of this test a source of workers that tells what its cache takes: the namespace that it watches.
const asSource = "SMG_TEST_SOURCE_OF"

// bigPods is how many pods that process watches.
const bigPods = 5000

// TestSourceProcess is no test: it is the process that the one below starts, since nobody else allocates in it.
func TestSourceProcess(t *testing.T) {
	namespace := os.Getenv(asSource)
	if namespace == "" {
		t.Skip("runs in a process of its own")
	}
	source := discovery.NewKubernetes(discovery.KubernetesSettings{
		Selectors:  discovery.Selectors{Worker: discovery.Selector{"app": "big"}},
		Namespaces: []string{namespace}, Port: clustertest.Port, Kubeconfig: os.Getenv(withKubeconfig),
	}, slog.New(slog.DiscardHandler))
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { _ = source.Watch(ctx, deaf{}) })
	for {
		if wanted, ok := source.Wanted(); ok && len(wanted) == bigPods {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Printf("the cache takes %d bytes\n", heap()-before)
	cancel()
	watching.Wait()
	runtime.KeepAlive(source)
}

// heap is what is in use, after what is not has been collected.
func heap() int64 {
	var m runtime.MemStats
	for range 3 { // what a collection frees may free more
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// deaf does not care for changes.
type deaf struct{}

func (deaf) Changed(discovery.Change) {}

// discovery.md, section 21: D50. What controllers write into a pod is not kept.
//
// 10,000 pods of which 3 match. Those that do not are not even sent.
func TestD50ManyPodsCostLittle(t *testing.T) {
	t.Parallel()
	s := sceneOn(t, clustertest.Start(t, "--watch-cache=false")) // with its cache that server would keep them all
	s.pods.Store(t, crowd(10_000, clustertest.Pod{Labels: map[string]string{"app": "other"}}))
	s.start(t)
	want := s.fleet(t, 3)
	s.passes(t, 2)
	s.serving(t, want)
	require.Equal(t, [2]float64{3, 0}, s.jobs(t))
	require.Len(t, s.proxy.Calls(), 2, "a list of one page, and a watch")

	apart := s.cluster.Namespace(t)
	apart.Store(t, crowd(bigPods, clustertest.Pod{Labels: map[string]string{"app": "big", "pod-template-hash": "5d4f8c7b9"}, Managed: 20 << 10}))
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	source := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSourceProcess$")
	source.Env = append(os.Environ(), asSource+"="+apart.Name, withKubeconfig+"="+apart.Kubeconfig(t, nil))
	said, err := source.CombinedOutput()
	require.NoError(t, err, string(said))
	took := regexp.MustCompile(`the cache takes (-?\d+) bytes`).FindSubmatch(said)
	require.NotNil(t, took, string(said))
	bytes, err := strconv.Atoi(string(took[1]))
	require.NoError(t, err)
	require.Less(t, bytes, bigPods*3<<10)
	t.Logf("%d bytes a pod", bytes/bigPods)
}

// crowd is so many pods that are alike.
func crowd(n int, like clustertest.Pod) []clustertest.Pod {
	all := make([]clustertest.Pod, n)
	for i := range all {
		all[i] = like
		all[i].Name, all[i].IP = fmt.Sprintf("p-%d", i), fmt.Sprintf("10.%d.%d.9", i/250, i%250)
	}
	return all
}
