package main

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var podFaults = []string{"pod deleted", "pod unready", "pod replaced", "pods rolled"}

// Nothing is lost, duplicated or left over, whatever happens to the pods.
func TestNothingIsLostWhateverHappensToPods(t *testing.T) {
	c := faultsCmd{Cluster: needCluster(t), Only: podFaults, Duration: 500 * time.Millisecond, Clients: 4, Together: 4}
	require.NoError(t, c.check())
	r, err := c.measure(t.Context(), io.Discard)
	require.NoError(t, err)
	require.NoError(t, r.err())
	require.Len(t, r.Faults, len(podFaults))
	for _, f := range r.Faults {
		require.Empty(t, f.NotRun)
		require.Positive(t, f.Completed, f.Fault)
		require.Equal(t, f.Sent, f.Completed+f.Refused, f.Fault)
		if f.Fault != "pod deleted" {
			require.Zero(t, f.Refused, f.Fault)
		}
	}
}

// Without a cluster the lines say so, and the others are what they are.
func TestFaultsOfPodsAreNotRunWithoutACluster(t *testing.T) {
	c := faultsCmd{Only: podFaults, Duration: time.Second, Clients: 1, Together: 1}
	r := newFaultReport(&c)
	var err error
	r.Faults, err = c.turns(t.Context(), c.wanted(), "no binary is started", t.TempDir(), io.Discard)
	require.NoError(t, err)
	require.NoError(t, r.err())
	require.Len(t, r.Faults, len(podFaults))
	var table bytes.Buffer
	require.NoError(t, r.print(&table))
	for i, f := range r.Faults {
		require.Equal(t, podFaults[i], f.Fault)
		require.Regexp(t, f.Fault+" +NOT RUN\n", table.String())
	}
	require.Contains(t, table.String(), "\nNOT RUN: it needs a Kubernetes API server")
}
