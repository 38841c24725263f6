package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/stages/policy"
)

// policies.md, sections 3 and 20: what can be chosen is what there is.
func TestThePolicyFlagTakesEveryPolicy(t *testing.T) {
	for _, f := range launchFlags(t) {
		if f.Name == "policy" {
			require.ElementsMatch(t, policy.Names(), f.EnumSlice(), "the enum of --policy in server/config_policy.go")
		}
	}
	require.Contains(t, policy.Names(), server.Default().Policy)
}

// policies.md, section 20; DECISIONS 48
func TestEveryOtherNameOfAFlagIsLikeTheFlag(t *testing.T) {
	tests := []struct{ flag, alias, value string }{
		{"cache-threshold", "cache-match-threshold", "0.5"},
		{"balance-abs-threshold", "spill-abs-threshold", "7"},
		{"balance-rel-threshold", "spill-rel-threshold", "2.5"},
		{"eviction-interval", "eviction-interval-secs", "9"},
		{"max-idle-secs", "sticky-key-idle-secs", "11"},
		{"routing-key-override", "sticky-sessions", "true"},
	}
	for _, tt := range tests {
		t.Run(tt.alias, func(t *testing.T) {
			want := launched(t, "--"+tt.flag+"="+tt.value)
			require.NotEqual(t, launched(t), want, "the value is not the default")
			require.Equal(t, want, launched(t, "--"+tt.alias+"="+tt.value), "on the command line")

			file := filepath.Join(t.TempDir(), "smg.yaml")
			require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(tt.alias, "-", "_")+": "+tt.value), 0o600))
			got := launched(t, "--config", file)
			require.Equal(t, want, got, "in the file")

			t.Setenv("SMG_FLAG_"+strings.ToUpper(strings.ReplaceAll(tt.alias, "-", "_")), tt.value)
			require.Equal(t, want, launched(t), "in the environment")
		})
	}
	both := []string{"--sticky-sessions", "--spill-abs-threshold", "7"}
	require.Equal(t, launched(t, "--routing-key-override", "--balance-abs-threshold", "7"), launched(t, both...))
}

func TestTwoNamesOfAFlagInAFileAreOneTooMany(t *testing.T) {
	file := filepath.Join(t.TempDir(), "smg.yaml")
	require.NoError(t, os.WriteFile(file, []byte("max-idle-secs: 1\nsticky-key-idle-secs: 2\n"), 0o600))
	code, stderr := refused(t, "--config", file)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "smg.yaml:2: 'sticky-key-idle-secs' is another name of 'max-idle-secs', which is set too")
}

// cli.md, section 10: every flag of the gateway, by every name, is one of serve with the prefix.
func TestServeTakesTheOtherNamesWithThePrefix(t *testing.T) {
	flags := &engineFlags{}
	parser, err := engineParser(flags, mappers()...)
	require.NoError(t, err)
	_, err = parser.Parse([]string{"--model", "m", "--router-sticky-sessions", "--router-spill-abs-threshold", "7"})
	require.NoError(t, err)
	require.True(t, flags.Gateway.RoutingKeyOverride)
	require.EqualValues(t, 7, flags.Gateway.BalanceAbs)
	_, err = parser.Parse([]string{"--model", "m", "--sticky-sessions"})
	require.ErrorContains(t, err, "unknown flag --sticky-sessions", "without the prefix it is for the engine")
}

// policies.md, sections 19 and 20; cache-aware.md, section 4
func TestPolicyFlagsOutOfRange(t *testing.T) {
	tests := []struct{ flags, want string }{
		{"--balance-rel-threshold 0.9", "invalid --balance-rel-threshold: '0.9': must be at least 1.0"},
		{"--cache-threshold 1.5", "invalid --cache-threshold: '1.5': must be between 0.0 and 1.0"},
		{"--cache-threshold NaN", "invalid --cache-threshold: 'NaN': must be a finite number"},
		{"--block-size 0", "invalid --block-size: '0': must be at least 1"},
		{"--cache-boundaries 8,4", "invalid --cache-boundaries: '4': must be above the boundary before it (8)"},
		{"--cache-boundaries 2048,2048", "invalid --cache-boundaries: '2048': must be above the boundary before it (2048)"},
		{"--cache-boundaries 0,16", "invalid --cache-boundaries: '0': must be at least 1"},
		{"--assignment-mode= --port 0", "--assignment-mode must be one of "},
	}
	for _, tt := range tests {
		t.Run(tt.flags, func(t *testing.T) {
			code, stderr := refused(t, strings.Fields(tt.flags)...)
			require.Contains(t, stderr, "error: "+tt.want)
			require.Equal(t, strings.HasPrefix(tt.want, "invalid"), code == exitFailed, "code %d", code)
		})
	}
	require.Equal(t, []int{2048, 8192}, launched(t, "--cache-boundaries", "2048,8192").CacheBoundaries)
}

// policies.md, section 20: --policy manual --routing-key-override is random and delegate; with the flag both are as it says.
func TestAnAssignmentModeThatWasNotGivenIsTold(t *testing.T) {
	require.Equal(t, policy.AssignUnset, launched(t, "--routing-key-override").Assignment())
	for _, mode := range []policy.Assignment{policy.AssignRandom, policy.AssignMinLoad, policy.AssignMinGroup, policy.AssignDelegate} {
		require.Equal(t, mode, launched(t, "--assignment-mode", string(mode)).Assignment())
	}
}
