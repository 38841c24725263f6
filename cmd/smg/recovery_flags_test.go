package main

import (
	"bytes"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// cli.md section 5.10: a switch of three positions, which takes no value unless it is written with "="
func TestRemoveUnhealthyWorkersIsOnOffOrUnset(t *testing.T) {
	tests := []struct {
		args []string
		want *bool
	}{
		{nil, nil},
		{[]string{"--remove-unhealthy-workers"}, new(true)},
		{[]string{"--remove-unhealthy-workers=true"}, new(true)},
		{[]string{"--remove-unhealthy-workers=false"}, new(false)},
		{[]string{"--no-remove-unhealthy-workers"}, new(false)},
		{[]string{"--worker-auto-recovery"}, new(true)},
		{[]string{"--worker-auto-recovery=false"}, new(false)},
		{[]string{"--no-worker-auto-recovery"}, new(false)},
		{[]string{"--remove-unhealthy-workers", "--no-worker-auto-recovery"}, new(false)},
		{[]string{"--no-worker-auto-recovery", "--worker-auto-recovery"}, new(true)},
	}
	for _, tt := range tests {
		cfg := launched(t, append([]string{"launch"}, tt.args...)...)
		require.Equal(t, tt.want, cfg.RemoveUnhealthyWorkers, "%v", tt.args)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, smg([]string{"launch", "--remove-unhealthy-workers", "false"}, &stdout, &stderr), "a following word is not its value")
}

// Kong makes the opposite of a flag's first name; the others' are ours to know.
func TestEveryNameOfASwitchHasItsOpposite(t *testing.T) {
	parser, err := kong.New(&cli{}, mappers()...)
	require.NoError(t, err)
	want := map[string]string{}
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			for _, alias := range flag.Aliases {
				if flag.Tag.Negatable != "" {
					want["--no-"+alias] = "--no-" + flag.Name
				}
			}
		}
	}
	require.Equal(t, want, otherwise)
	require.Equal(t, []string{"serve", "--", "--no-worker-auto-recovery"}, spelt([]string{"serve", "--", "--no-worker-auto-recovery"}))
}
