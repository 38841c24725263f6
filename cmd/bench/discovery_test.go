package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery/clustertest"
)

// needCluster is the binary of an API server; without one the test is skipped.
func needCluster(t *testing.T) string {
	binary := os.Getenv(clustertest.Variable)
	if binary == "" || testing.Short() {
		t.Skip("left out: it builds smg, takes seconds, and " + errNoCluster.Error())
	}
	return binary
}

// Every line of the table is measured.
func TestDiscoveryIsMeasuredFromEndToEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "discovery.json")
	c := discoveryCmd{
		Cluster: needCluster(t), Samples: 2, Pods: 20, Changes: 10, Steady: time.Second, Rolled: 6, Clients: 4, JSON: path,
	}
	require.NoError(t, c.check())
	r, err := c.measure(t.Context(), io.Discard)
	require.NoError(t, err)
	require.NoError(t, r.err())
	require.NoError(t, publish(r, path))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var report discoveryReport
	require.NoError(t, json.Unmarshal(text, &report))
	units := map[string]int{}
	for _, row := range report.Rows {
		units[row.Unit]++
		if row.Result != "no data" && (row.Unit == "s" || row.Unit == "MiB") {
			require.Positive(t, row.Value, row.Measure)
		}
		require.GreaterOrEqual(t, row.Value, 0.0, row.Measure)
		require.Less(t, row.Value, 100+row.Bar, row.Measure)
	}
	require.Equal(t, map[string]int{"s": 5, "MiB": 2, "cores": 1, "requests": 1}, units)
	last := report.Rows[len(report.Rows)-1]
	require.Equal(t, "ok", last.Result)
	require.Positive(t, last.Samples, "there was load")
}

// A part that was not asked for is not run.
func TestPartsOfDiscoveryAreRunAsAskedFor(t *testing.T) {
	c := discoveryCmd{Cluster: needCluster(t), Only: []string{"idle"}, Samples: 1, Pods: 1, Changes: 1, Steady: time.Second, Rolled: 1, Clients: 1}
	r, err := c.measure(t.Context(), io.Discard)
	require.NoError(t, err)
	require.Len(t, r.Rows, 1)
	require.Equal(t, "idle memory without discovery", r.Rows[0].Measure)
}

// A value above its bar is short of it; only requests that were lost are a failure.
func TestFiguresOfDiscoveryAreJudged(t *testing.T) {
	r := newDiscoveryReport()
	r.add(discoveryRow{Measure: "memory", Value: 45, Bar: 45, Unit: "MiB"})
	r.add(discoveryRow{Measure: "CPU", Value: 0.051, Bar: 0.05, Unit: "cores"})
	r.note("%d changes", 7)
	r.percentile("first request", []time.Duration{3 * time.Second, time.Second, 2 * time.Second}, 0.5, 2)
	r.percentile("first request", []time.Duration{3 * time.Second, time.Second, 2 * time.Second}, 0.99, 2)
	r.percentile("no request", nil, 0.99, 2)
	var out bytes.Buffer
	require.NoError(t, r.print(&out))
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	require.Subset(t, lines, []string{
		"memory 45.0 45 MiB - ok", "CPU 0.051 0.05 cores - short", "CPU: 7 changes",
		"first request, p50 2.000 2 s 3 ok", "first request, p99 3.000 2 s 3 short",
		"no request, p99 0.000 2 s - no data",
	})
	require.NoError(t, r.err())
	r.lost, r.example = 2, "status 500"
	require.EqualError(t, r.err(), "2 requests were lost, such as: status 500")
}

func TestDiscoveryThatCannotBeRunIsRefused(t *testing.T) {
	t.Setenv(clustertest.Variable, "")
	require.NoError(t, os.Unsetenv(clustertest.Variable)) // set to "" it would be a file that is not there
	for says, args := range map[string]string{
		"--samples": "--samples 0", "--pods": "--pods -1", "--changes": "--changes 0", "--rolled": "--rolled 0", "--clients": "--clients 0",
		"--steady": "--steady 10ms", "--only": "--only memory",
	} {
		k, err := kong.Must(&cli{}, kong.Name("bench")).Parse(append([]string{"discovery", "--cluster", os.Args[0]}, strings.Fields(args)...))
		if err == nil {
			err = run(k)
		}
		require.ErrorContains(t, err, says)
	}
	k, err := kong.Must(&cli{}, kong.Name("bench")).Parse([]string{"discovery"})
	require.NoError(t, err)
	require.ErrorIs(t, run(k), errNoCluster)
}

// What is made for tests ends a test when it fails; here it is an error, in whatever goroutine it happens.
func TestAStandTurnsWhatIsFatalIntoAnError(t *testing.T) {
	var order []string
	s := newStand()
	dir := s.TempDir()
	require.DirExists(t, dir)
	require.NoError(t, s.try(func() {
		s.Helper()
		s.Cleanup(func() { order = append(order, "first") })
		s.Cleanup(func() { order = append(order, "second") })
	}))
	went := false
	err := s.try(func() {
		within := make(chan bool)
		go func() { // as clustertest does for many pods; nobody ever hears of this one
			s.Fatalf("pod %s: %d", "p1", 409)
			close(within)
		}()
		select {
		case <-within:
			went = true
		case <-t.Context().Done(): // the end of the test
		}
	})
	require.EqualError(t, err, "pod p1: 409")
	require.EqualError(t, s.try(func() { s.Skipf("no binary") }), "pod p1: 409", "the first one counts")
	require.False(t, went)
	s.close()
	require.Equal(t, []string{"second", "first"}, order)
	require.NoDirExists(t, dir)
}

func TestAClusterThatDoesNotStartIsAnError(t *testing.T) {
	t.Setenv(clustertest.Variable, "")
	_, err := openCluster("")
	require.ErrorIs(t, err, errNoCluster)
	broken := filepath.Join(t.TempDir(), "testcluster")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho no luck >&2; exit 1\n"), 0o755))
	_, err = openCluster(broken)
	require.ErrorContains(t, err, "no luck")
}
