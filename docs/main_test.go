// Package docs walks the pages that a user reads: every command in them is run, and what they mention has to exist.
//
// Commands are what stands in blocks marked sh (each line is one) and console (lines after "$ "; the others are what the command
// shows, and "..." in them stands for anything). An indented block counts as sh if it begins with the name of a program. Each page
// is run on a fresh copy of the checkout, from top to bottom, on a network of its own where the system can give one, so that the
// ports that pages name are free. A line that starts a server runs in the background until the page ends or another one needs its
// port. What cannot run here is in notrun_test.go, with the reason and with what checks it instead.
package docs

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// root is the checkout, seen from this folder.
const root = ".."

func TestMain(m *testing.M) {
	if code, ran := sandboxed(); ran {
		os.Exit(code)
	}
	code, err := prepare(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot prepare the walk:", err)
		os.Exit(1)
	}
	if leak := goleak.Find(); code == 0 && leak != nil {
		fmt.Fprintln(os.Stderr, "goleak:", leak)
		code = 1
	}
	os.Exit(code)
}
