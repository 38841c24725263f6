package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/smg-go/smg/discovery/clustertest"
)

// errNoCluster says what is missing, and how to get it.
var errNoCluster = errors.New("it needs a Kubernetes API server: --cluster or " + clustertest.Variable +
	" names the binary of one, and .ci/testcluster builds it (10 minutes, once) and prints where it is")

// stand takes the place of a test, for a program that runs a cluster of clustertest. What is fatal there is an error of [stand.try]
// here.
type stand struct {
	mu      sync.Mutex
	undo    []func()
	failure error
	failed  chan struct{}
}

var _ clustertest.TB = (*stand)(nil)

func newStand() *stand { return &stand{failed: make(chan struct{})} }

// Helper does nothing: there are no lines of a test to point at.
func (s *stand) Helper() {}

// Cleanup has f called when the stand is closed, the last one first.
func (s *stand) Cleanup(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undo = append(s.undo, f)
}

// TempDir makes a folder that lasts until the stand is closed.
func (s *stand) TempDir() string {
	dir, err := os.MkdirTemp("", "smg-bench-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Fatal ends the goroutine. From then on the stand is of no use.
func (s *stand) Fatal(args ...any) {
	s.mu.Lock()
	if s.failure == nil {
		s.failure = errors.New(fmt.Sprint(args...))
		close(s.failed)
	}
	s.mu.Unlock()
	runtime.Goexit()
}

// Fatalf is Fatal with a format.
func (s *stand) Fatalf(format string, args ...any) { s.Fatal(fmt.Sprintf(format, args...)) }

// Skipf is fatal as well: whoever opens a cluster has looked for the binary before.
func (s *stand) Skipf(format string, args ...any) { s.Fatalf(format, args...) }

// try calls f, which may call what is made for tests, and returns what was fatal, be it in a goroutine that f waits for.
func (s *stand) try(f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-s.failed:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *stand) close() {
	s.mu.Lock()
	undo := s.undo
	s.undo = nil
	s.mu.Unlock()
	for _, f := range slices.Backward(undo) {
		f()
	}
}

// cluster is a control plane as long as a benchmark runs.
type cluster struct {
	*stand
	*clustertest.Cluster
}

// openCluster starts the control plane of a binary; it takes seconds.
func openCluster(binary string) (*cluster, error) {
	if binary == "" {
		return nil, errNoCluster
	}
	if err := os.Setenv(clustertest.Variable, binary); err != nil { // where clustertest looks for it
		return nil, err
	}
	c := &cluster{stand: newStand()}
	if err := c.try(func() { c.Cluster = clustertest.Start(c.stand) }); err != nil {
		c.close()
		return nil, fmt.Errorf("the cluster: %w", err)
	}
	return c, nil
}
