package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/smg-go/smg/server"
)

// TestMain lets scripts run this test's own binary as smg. Both helpers want to end the process, so goleak gets the tests.
func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){"smg": main, "brisk-smg": brisk, "standin": standIn})
}

// checked is a run of the tests that fails if a goroutine is left behind, as goleak.VerifyTestMain does.
type checked struct{ m *testing.M }

func (c checked) Run() int {
	code := c.m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "goleak:", err)
		return 1
	}
	return 0
}

// The files are named after the sections of cli.md.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector lets each process linger for a second
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a program and demands its exit code: exits 2 smg --bogus.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits code program [args]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// launched returns the configuration that the gateway would be started with.
func launched(t *testing.T, args ...string) *server.Config {
	t.Helper()
	var got *server.Config
	defer func(before func(context.Context, *server.Config) error) { run = before }(run)
	run = func(_ context.Context, cfg *server.Config) error {
		got = cfg
		return nil
	}
	var stderr bytes.Buffer
	require.Zero(t, smg(args, io.Discard, &stderr), stderr.String())
	require.NotNil(t, got)
	return got
}

// refused returns the exit code and the errors of a command line that does not start the gateway.
func refused(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	defer func(before func(context.Context, *server.Config) error) { run = before }(run)
	run = func(context.Context, *server.Config) error {
		t.Error("the gateway was started")
		return nil
	}
	var out bytes.Buffer
	code = smg(args, io.Discard, &out)
	return code, out.String()
}
