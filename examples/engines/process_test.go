package engines_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guard runs a program and ends its whole process group when the program ends, or when standard input does: the latter is a pipe
// that this test holds, so nothing outlives the test however that ends. An engine starts processes that would otherwise stay.
const guard = `exec 3<&0
{ cat <&3; kill -KILL 0; } &
"$@" 3<&- </dev/null
kill -KILL 0`

// process is a program in a session and a process group of its own.
type process struct {
	cmd    *exec.Cmd
	hold   io.Closer // the other end of the guard's standard input
	output string    // file with what it prints
	gone   chan struct{}
}

// run starts a program; env is added to the environment.
func run(t *testing.T, env []string, program string, args ...string) *process {
	t.Helper()
	output, err := os.CreateTemp(t.TempDir(), filepath.Base(program)+"-*.log")
	require.NoError(t, err)
	defer output.Close()
	p := &process{output: output.Name(), gone: make(chan struct{})}
	p.cmd = exec.Command("bash", append([]string{"-c", guard, "guard", program}, args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = output, output
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p.hold, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // always "signal: killed": the guard is part of its group
		close(p.gone)
	}()
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			t.Logf("the last lines of %s:\n%s", filepath.Base(program), p.tail(40))
		}
	})
	return p
}

// kill ends the whole group at once, and returns when nothing of it is left.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if !p.ended() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // an error: it has just ended by itself
	}
	<-p.gone
	_ = p.hold.Close() // closed by Wait already
	var left []string
	require.Eventually(t, func() bool {
		left = p.group(t)
		return len(left) == 0
	}, time.Minute, 20*time.Millisecond, "processes are left behind")
}

func (p *process) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// group names the processes of the group that run. One that is dead counts as gone although nobody has collected it.
func (p *process) group(t *testing.T) (running []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended since
		}
		// pid (name) state parent group ...; the name may hold anything
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[2] == strconv.Itoa(p.cmd.Process.Pid) && fields[0] != "Z" && fields[0] != "X" {
			running = append(running, string(stat))
		}
	}
	return running
}

// tail is the end of what the process has printed.
func (p *process) tail(lines int) string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return fmt.Sprintf("(%v)", err)
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
