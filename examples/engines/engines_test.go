package engines_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The built smg in front of real engines: two llama.cpp, and one vLLM, which takes a minute to load and is waited for meanwhile. What
// real engines answer is in README.md beside this file; the rules are those of http-dataplane.md, sections 7 to 10, and workers.md, 7 and 14.
func TestRealEngines(t *testing.T) {
	dir := os.Getenv("SMG_TEST_ENGINES")
	if dir == "" {
		t.Skip("left out: examples/engines/check.sh installs real engines and runs this; or set SMG_TEST_ENGINES to a folder where it did")
	}
	llamas, vllms := startFleet(t, dir, llamaCPP, 2), startFleet(t, dir, vLLM, 1)
	var gw *gateway
	if llamas.absent == "" || vllms.absent == "" {
		gw = startGateway(t, append(llamas.engines, vllms.engines...)...)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	llamas.check(t, gw, func(t *testing.T, gw *gateway) {
		llamas.checkService(t, gw)
		t.Run("errors are relayed byte for byte", func(t *testing.T) { checkErrors(t, gw, llamas.engines[0], llamaErrors) })
		t.Run("an engine that is killed in mid-stream breaks that stream alone, and comes back", func(t *testing.T) { llamas.checkReturn(t, gw) })
	})
	vllms.check(t, gw, func(t *testing.T, gw *gateway) {
		vllms.checkService(t, gw)
		t.Run("errors are relayed byte for byte", func(t *testing.T) { checkErrors(t, gw, vllms.engines[0], vllmErrors) })
		t.Run("the only engine of a model that is killed in mid-stream takes that model along, and nothing else", func(t *testing.T) {
			checkLoss(t, gw, vllms.engines[0], llamas)
		})
	})
}

// fleet is all engines of one kind.
type fleet struct {
	kind
	engines []*engine
	absent  string // why they do not run; empty if they do, or may
	owner   *testing.T
}

// startFleet begins to start n engines, if the kind is installed.
func startFleet(t *testing.T, dir string, k kind, n int) *fleet {
	t.Helper()
	f := &fleet{kind: k, owner: t}
	if !k.installed(dir) {
		f.absent = "it is not installed in " + dir
		return f
	}
	for range n {
		f.engines = append(f.engines, k.start(t, dir))
	}
	return f
}

// check runs the checks of a fleet once it is up, and leaves them out if it will not be.
func (f *fleet) check(t *testing.T, gw *gateway, checks func(t *testing.T, gw *gateway)) {
	t.Helper()
	passed := t.Run(f.name, func(t *testing.T) {
		f.await(t)
		if f.absent != "" {
			t.Skipf("%s NOT RUN: %s", f.name, f.absent)
		}
		for _, e := range f.engines {
			gw.waitUntil(t, e, "ready")
		}
		checks(t, gw)
	})
	switch {
	case f.absent != "":
		report(t, f.name+" NOT RUN: "+f.absent)
	case passed:
		report(t, f.name+" ok")
	default:
		report(t, f.name+" FAILED")
	}
}

// await waits for the engines to come up, within what go test allows for everything.
func (f *fleet) await(t *testing.T) {
	t.Helper()
	limit := startLimit
	if deadline, set := t.Deadline(); set {
		limit = min(limit, time.Until(deadline)-3*time.Minute)
	}
	for _, e := range f.engines {
		err := e.up(t, limit)
		if err == nil {
			continue
		}
		f.absent = err.Error()
		for _, e := range f.engines {
			e.process.kill(t)
		}
		return
	}
}

// report adds a line to the file that check.sh prints in the end.
func report(t *testing.T, line string) {
	t.Helper()
	t.Log(line)
	name := os.Getenv("SMG_TEST_ENGINES_REPORT")
	if name == "" {
		return
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer file.Close()
	_, err = fmt.Fprintln(file, line)
	require.NoError(t, err)
}

// runClient runs one of the official clients against a model.
func runClient(t *testing.T, gw *gateway, client, model string) {
	t.Helper()
	python := os.Getenv("SMG_TEST_PYTHON")
	if python == "" {
		t.Skip("left out: set SMG_TEST_PYTHON to a Python with the packages openai and anthropic, as check.sh does")
	}
	out, err := exec.CommandContext(t.Context(), python, filepath.Join("testdata", client+"_client.py"), gw.url, model).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "ok", strings.TrimSpace(string(out)))
}
