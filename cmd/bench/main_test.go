package main

import (
	"os"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for bench, which runs itself again as the engine.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "engine" {
		var c cli
		parser := kong.Must(&c, kong.Name("bench"))
		k, err := parser.Parse(os.Args[1:])
		parser.FatalIfErrorf(err)
		parser.FatalIfErrorf(run(k))
		return
	}
	goleak.VerifyTestMain(m)
}
