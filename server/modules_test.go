package server_test

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files; read what has changed")

// What the binary is made of is a decision: whoever adds a dependency sees it here first.
func TestTheModulesOfTheBinary(t *testing.T) {
	const golden = "testdata/modules.txt"
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "github.com/smg-go/smg/cmd/smg").Output()
	require.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if path := strings.TrimSpace(line); path != "" {
			seen[path] = true
		}
	}
	got := strings.Join(slices.Sorted(maps.Keys(seen)), "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}
