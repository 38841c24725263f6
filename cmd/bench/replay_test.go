package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/bench/replay"
	"github.com/smg-go/smg/stages/policy"
)

// simulate runs the command with what it prints going to the buffers.
func simulate(t *testing.T, stdout, stderr *bytes.Buffer, args ...string) error {
	t.Helper()
	k, err := kong.Must(&cli{}, kong.Name("bench"), kong.Writers(stdout, stderr)).Parse(append([]string{"replay"}, args...))
	require.NoError(t, err)
	return run(k)
}

// With --json stdout holds JSON alone, the progress goes to stderr; plots are SVG files.
func TestReplayPrintsRowsAndWritesPlots(t *testing.T) {
	var stdout, stderr bytes.Buffer
	dir := filepath.Join(t.TempDir(), "plots")
	small := []string{"--workload", "hot", "--policy", "random", "--engines", "2", "--length", "0.02", "--load", "0.5"}
	require.NoError(t, simulate(t, &stdout, &stderr, append(small, "--json", "--plot", dir)...))
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rows))
	require.Len(t, rows, 2)
	for _, name := range []string{
		"workload", "policy", "engines", "seed", "load", "cached_share", "ttft_mean", "ttft_p50", "ttft_p90", "ttft_p99", "e2e_p99",
		"imbalance", "capacity", "capacity_vs_oracle",
	} {
		require.Contains(t, rows[1], name)
	}
	require.Len(t, rows[1], 14)
	require.Contains(t, stderr.String(), "hot, 2 engines, seed 1: random at")
	svg, err := os.ReadFile(filepath.Join(dir, "hot-2-1.svg"))
	require.NoError(t, err)
	require.Contains(t, string(svg), "<polyline")

	first := stdout.String()
	stdout.Reset()
	require.NoError(t, simulate(t, &stdout, &stderr, append(small, "--json")...))
	require.Equal(t, first, stdout.String(), "the same for a seed")
	stdout.Reset()
	require.NoError(t, simulate(t, &stdout, &stderr, small...))
	require.Contains(t, stdout.String(), "of oracle")
}

func TestReplayFlagsThatCannotBeRunAreRefused(t *testing.T) {
	tests := []struct {
		name, says string
		args       []string
	}{
		{"a workload that is none", "--workload", []string{"--workload", "conv,tepid"}},
		{"a policy that is none", "--policy", []string{"--policy", "worst"}},
		{"no engine", "--engines", []string{"--engines", "8,0"}},
		{"no load", "--load", []string{"--load", "0"}},
		{"no seed", "--seeds", []string{"--seeds", "0"}},
		{"no gateway", "--gateways", []string{"--gateways", "0"}},
		{"a negative time", "--poll", []string{"--poll=-1s"}},
		{"an error of all", "--token-error", []string{"--token-error", "1"}},
		{"a run of no length", "--length", []string{"--length", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, simulate(t, &bytes.Buffer{}, &bytes.Buffer{}, tt.args...), tt.says)
		})
	}
}

// --all is all workloads and all policies.
func TestReplayAllIsEverything(t *testing.T) {
	c := replayCmd{All: true, Workload: []string{"conv"}, Policy: []string{"random"}, Seed: 4, Seeds: 3}
	got := c.config(nil)
	require.Equal(t, replay.Workloads(), got.Workloads)
	require.Subset(t, got.Policies, policy.Names())
	require.Contains(t, got.Policies, replay.WholeCacheAware, "what least_work is held to")
	require.Equal(t, []uint64{4, 5, 6}, got.Seeds)
}

// --all prints the table of what least_work is held to; with --json beside stdout, which holds JSON alone.
func TestReplayAllSaysWhatHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds")
	}
	var stdout, stderr bytes.Buffer
	require.NoError(t, simulate(t, &stdout, &stderr, "--all", "--engines", "1", "--length", "0.01", "--load", "0.7", "--json"))
	var rows []replay.Row
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &rows))
	require.Len(t, rows, len(replay.Workloads())*(1+len(policies())))
	require.Contains(t, stderr.String(), "what least_work is held to")
	require.Contains(t, stderr.String(), "(of 6)", "a case for each workload")
}
