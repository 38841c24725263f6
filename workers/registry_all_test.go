package workers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// pausing is a listener that holds a change up, and with it the registry's lock.
type pausing struct {
	Deaf
	begun, goOn chan struct{}
}

func (p pausing) WorkerAdded(*Worker) {
	close(p.begun)
	<-p.goOn
}

// workers.md section 18: a page of all workers waits for no change, and no change for it.
func TestAllWorkersAreReadWithoutALock(t *testing.T) {
	r := NewRegistry()
	var want []string
	for i, url := range []string{"http://a:1", "http://b:1", "grpc://c:1", "http://d:1@0"} {
		spec := NewSpec(url)
		spec.WorkerType = []Type{Regular, Prefill, Regular, Decode}[i]
		spec.Labels = map[string]string{"model_id": fmt.Sprint("m", i%2)}
		w, err := New(spec, DefaultSettings())
		require.NoError(t, err)
		require.NoError(t, r.Add(w))
		want = append(want, url)
	}
	late, err := New(NewSpec("http://e:1"), DefaultSettings())
	require.NoError(t, err)
	held := pausing{begun: make(chan struct{}), goOn: make(chan struct{})}
	r.Listen(held)
	added := make(chan error)
	go func() { added <- r.Add(late) }()
	<-held.begun
	var got []string
	for _, w := range r.All() { // with the lock held it would wait for ever
		got = append(got, w.URL())
	}
	close(held.goOn)
	require.NoError(t, <-added)
	require.Equal(t, append(want, "http://e:1"), got, "in the order of registration, whatever their types and modes")

	all := r.All()
	require.True(t, r.Remove(all[0]))
	all[1] = nil
	require.NotNil(t, r.All()[0], "the list is the caller's")
}
