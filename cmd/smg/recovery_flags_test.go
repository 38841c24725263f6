package main

import (
	"bytes"
	"testing"

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
	}
	for _, tt := range tests {
		cfg := launched(t, append([]string{"launch"}, tt.args...)...)
		require.Equal(t, tt.want, cfg.RemoveUnhealthyWorkers, "%v", tt.args)
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, 2, smg([]string{"launch", "--remove-unhealthy-workers", "false"}, &stdout, &stderr), "a following word is not its value")
}
