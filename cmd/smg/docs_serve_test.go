package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// engineFlagList are the flags of serve when it starts engines, without those of the gateway that have a prefix there.
func engineFlagList(t *testing.T) []*kong.Flag {
	t.Helper()
	var flags engineFlags
	grammar, err := engineParser(&flags, (&cli{stdout: io.Discard, stderr: io.Discard}).options()...)
	require.NoError(t, err)
	return flagsOf(grammar.Model.Node)
}

// engines is the part of the page about the engines that serve starts.
func (p flagsPrinter) engines() {
	fmt.Fprintf(p.out, "\nWith one of %s on the command line it starts engines on this host and the gateway in front of them. Then it has the flags below, "+
		"and the gateway's others are those of launch with `--router-` before their name, such as `--router-policy`; their environment variables and their keys in "+
		"the file stay those of launch. Any other flag goes to the engines as it is, and so does everything behind a bare `--`.\n", inCode(starters...))
	flags := engineFlagList(p.t)
	rows := map[string]string{}
	for _, f := range flags {
		plain := asInLaunch(f)
		key := ""
		if !isEngineFlag(f) && p.keys[plain.Name] {
			key = plain.Name
		}
		rows[f.Name] = flagRow(f, variables(plain), key)
	}
	p.groups(flags, rows)
}

// cli.md, section 8
func TestPageOfFlagsHasTheFlagsOfEngines(t *testing.T) {
	_, serve, found := strings.Cut(string(flagsPage(t)), "\n## smg serve\n")
	require.True(t, found)
	serve, _, _ = strings.Cut(serve, "\n## ")
	var names []string
	for _, f := range engineFlagList(t) {
		require.Equal(t, 1, strings.Count(serve, "\n| `--"+f.Name+"`"), f.Name)
		names = append(names, "--"+f.Name)
		names = append(names, aliasesOf(f)...)
	}
	for _, starter := range starters {
		require.True(t, slices.Contains(names, starter), starter)
	}
}

func aliasesOf(f *kong.Flag) (names []string) {
	for _, alias := range f.Aliases {
		names = append(names, "--"+alias)
	}
	return names
}
