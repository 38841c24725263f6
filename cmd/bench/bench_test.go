package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// quick are settings for one short round.
func quick(t *testing.T, only ...string) settings {
	if _, err := exec.LookPath("nginx"); err != nil {
		t.Skip("nginx is not installed; it is the engine and a peer")
	}
	return settings{Only: only, Peers: t.TempDir(), Duration: time.Second, Rounds: 1}
}

func requireWhole(t *testing.T, r *report, rows int) {
	require.Len(t, r.Results, rows)
	for _, res := range r.Results {
		require.True(t, res.counts(), "%s, %s: %s", res.Peer, res.Load, res.Failure)
		require.Positive(t, res.Figures["per_second"].Median, res.Peer)
		if res.Peer != directName {
			require.Positive(t, res.Figures["peak_mib"].Median, res.Peer)
		}
	}
}

func TestOverheadIsMeasuredFromEndToEnd(t *testing.T) {
	c := overheadCmd{settings: quick(t, nginxName, deployedName), Sizes: []int{1, 256}, Connections: []int{1}}
	r, err := c.measure(t.Context())
	require.NoError(t, err)
	requireWhole(t, r, 4)
	require.False(t, r.Peers[2].Installed, "a peer that is not there is listed")
	require.NotNil(t, r.Peers[1].AddedP50Ms)
	require.NotEmpty(t, r.Peers[1].Version)
}

func TestStreamIsMeasuredFromEndToEnd(t *testing.T) {
	c := streamCmd{settings: quick(t, nginxName), Streams: []int{4}}
	r, err := c.measure(t.Context())
	require.NoError(t, err)
	requireWhole(t, r, 2)
}

func TestPeerThatDoesNotStartLeavesTheOthersTheirRows(t *testing.T) {
	s := quick(t, nginxName, deployedName)
	broken := filepath.Join(s.Peers, "smg", "bin", "smg")
	require.NoError(t, os.MkdirAll(filepath.Dir(broken), 0o755))
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\necho no luck; exit 1\n"), 0o755))
	c := overheadCmd{settings: s, Sizes: []int{1}, Connections: []int{1}}
	r, err := c.measure(t.Context())
	require.NoError(t, err)
	requireWhole(t, r, 2)
	require.Contains(t, r.Peers[2].Failure, "no luck")
}

func TestFlagsThatCannotBeRunAreRefused(t *testing.T) {
	tests := []struct {
		name, says string
		args       []string
	}{
		{"a peer that is none", "no peer", []string{"overhead", "--only", "nginx,apache"}},
		{"no rounds", "--rounds", []string{"overhead", "--rounds", "0"}},
		{"too short to be measured", "--duration", []string{"stream", "--duration", "1ms"}},
		{"no streams", "--streams", []string{"stream", "--streams", "0"}},
		{"no connections", "--connections", []string{"overhead", "--connections", "1,0"}},
		{"a body of nothing", "--sizes", []string{"overhead", "--sizes", "0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k, err := kong.Must(&cli{}, kong.Name("bench")).Parse(tt.args)
			require.NoError(t, err)
			require.ErrorContains(t, run(k), tt.says)
		})
	}
}
