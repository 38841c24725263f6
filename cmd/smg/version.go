package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/smg-go/smg/server"
)

// A release build sets these with the linker; Go itself records the rest. Unset is shown as "unknown".
var (
	buildTime string // RFC 3339
	branch    string
)

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(c *cli) error {
	_, err := io.WriteString(c.stdout, shortVersion())
	return err
}

// versionFlag answers the flags that print a version. They win over everything, errors included, wherever they stand before
// a bare "--"; what follows that is not smg's.
func versionFlag(args []string) (text string, ok bool) {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	switch {
	case slices.Contains(args, "--version"), slices.Contains(args, "-V"):
		return shortVersion(), true
	case slices.Contains(args, "--version-verbose"):
		return longVersion(), true
	}
	return "", false
}

func shortVersion() string { return "smg " + server.Version + "\n" }

func longVersion() string {
	settings := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
	}
	const unknown = "unknown"
	mode, tree := "plain", unknown
	if settings["-race"] == "true" {
		mode = "race detector"
	}
	switch settings["vcs.modified"] {
	case "true":
		tree = "dirty"
	case "false":
		tree = "clean"
	}
	return shortVersion() + fmt.Sprintf(`
build time: %s
build mode: %s
platform: %s/%s
branch: %s
commit: %s (%s)
toolchain: %s
`, cmp.Or(buildTime, settings["vcs.time"], unknown), mode, runtime.GOOS, runtime.GOARCH,
		cmp.Or(branch, unknown), cmp.Or(server.Commit, settings["vcs.revision"], unknown), tree, runtime.Version())
}
