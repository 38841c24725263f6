package launch

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cli.md, sections 8.7 and 8.8
func TestWorkersAreReadyTogether(t *testing.T) {
	b := plan(t, "", "")
	f := b.started(t)
	require.NoError(t, f.Ready(t.Context(), patience))
	require.Equal(t, "0 1", get(t, b.workers[0].URL+"/environ"))
	require.Equal(t, "1 1", get(t, b.workers[1].URL+"/environ"))
	require.Equal(t, []string{b.workers[0].URL, b.workers[1].URL}, f.urls())
	f.Stop(t.Context())
	require.True(t, b.termed(b.workers[0]) && b.termed(b.workers[1]))
	require.NotContains(t, b.log.String(), "level=ERROR", "nobody complains of workers that were told to end")
	noChildren(t)

	require.Contains(t, b.out.String(), "[worker 1] hello from "+strconv.Itoa(b.workers[1].Port)+"\n")
	require.Contains(t, b.errs.String(), "[worker 0] 10%\n")
	require.Contains(t, b.errs.String(), "[worker 0] no end of line\n")
}

// cli.md, section 8.7
func TestTheLinesOfAnOnlyWorkerHaveNoPrefix(t *testing.T) {
	b := plan(t, "exit3")
	<-b.started(t).Exited()
	require.Equal(t, "hello from "+strconv.Itoa(b.workers[0].Port)+"\n", b.out.String())
	require.Equal(t, "10%\n20%\ndone\nno end of line\n", b.errs.String())
}

func TestLongLinesAreBroken(t *testing.T) {
	var out strings.Builder
	copyLines(&sink{w: &out}, "> ", strings.NewReader(strings.Repeat("x", maxLine+1)+"\n\n\r\nend\n"))
	require.Equal(t, "> "+strings.Repeat("x", maxLine)+"\n> x\n> end\n", out.String())
}

// cli.md, section 8.8
func TestWhyWorkersAreNotReady(t *testing.T) {
	tests := []struct {
		name, second, want string
		limit              time.Duration
	}{
		{"a worker that exits is named with its code at once", "exit3", "worker 1 on port PORT exited with code 3 before it was ready", time.Hour},
		{"a worker that does not listen is named with its port", "mute", "worker 1 on port PORT: not ready in time (limit 1s)", time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := plan(t, "", tt.second)
			err := b.started(t).Ready(t.Context(), tt.limit)
			require.EqualError(t, err, strings.ReplaceAll(tt.want, "PORT", strconv.Itoa(b.workers[1].Port)))
		})
	}
	t.Run("a worker that a signal ends is named with it", func(t *testing.T) {
		b := plan(t, "mute")
		f := b.started(t)
		require.NoError(t, syscall.Kill(f.processes[0].cmd.Process.Pid, syscall.SIGKILL))
		require.ErrorContains(t, f.Ready(t.Context(), patience), " was ended by signal: killed before it was ready")
	})
	t.Run("a caller may give up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, plan(t, "mute").started(t).Ready(ctx, patience), context.Canceled)
	})
}

// cli.md, section 8.10
func TestAProgramThatIsNotThereLeavesNothing(t *testing.T) {
	b := plan(t, "deaf", "")
	b.workers[1].Argv[0] = "/nowhere/python3"
	_, err := Start(b.workers, b.Options)
	require.EqualError(t, err, "worker 1 cannot be started: fork/exec /nowhere/python3: no such file or directory")
	noChildren(t)
}

// cli.md, section 8.10
func TestNoProcessIsLeft(t *testing.T) {
	for name, behaviour := range map[string]string{
		"a worker that ignores SIGTERM is killed":                             "deaf",
		"a worker that ignores SIGTERM while it starts is killed":             "deaf mute",
		"a child of a worker, which ignores SIGTERM, is killed after it":      "child",
		"a child of a worker that is killed is killed too":                    "child deaf",
		"a child that has left the group is found":                            "stray",
		"a child that has left the group of a worker that starts is found":    "stray mute",
		"a child that has left the group of a worker that is killed is found": "stray deaf",
	} {
		t.Run(name, func(t *testing.T) {
			b := plan(t, behaviour)
			f := b.started(t)
			require.Eventually(t, func() bool { return strings.Contains(b.errs.String(), "done") }, patience, time.Millisecond)
			if !strings.Contains(behaviour, "mute") {
				require.NoError(t, f.Ready(t.Context(), patience))
			}
			if strings.Contains(behaviour, "child") || strings.Contains(behaviour, "stray") { // else the test proves nothing
				require.Eventually(t, func() bool { return strings.Contains(b.out.String(), "hello from 0") }, patience, time.Millisecond)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if !strings.Contains(behaviour, "deaf") {
				ctx = t.Context()
			}
			f.Stop(ctx)
			require.Equal(t, !strings.Contains(behaviour, "deaf"), b.termed(b.workers[0]))
			noChildren(t)
		})
	}
}

// cli.md, section 8.10: while running, a worker that exits is logged at ERROR with its code
func TestAWorkerThatCrashesIsLoggedAndItsChildrenAreEnded(t *testing.T) {
	b := plan(t, "child", "")
	f := b.started(t)
	require.NoError(t, f.Ready(t.Context(), patience))
	child := childrenOf(f.processes[0].cmd.Process.Pid)
	require.Len(t, child, 1)
	get(t, b.workers[0].URL+"/crash")
	require.Eventually(t, func() bool { return strings.Contains(b.log.String(), "worker exited with code 5") }, patience, time.Millisecond)
	require.Contains(t, b.log.String(), "level=ERROR")
	require.NotContains(t, pidsOf(f), child[0])
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(child[0]) + "/stat")
	if err == nil {
		require.Contains(t, string(stat), ") Z ", "the child has ended")
	}
	select {
	case <-f.Exited():
		t.Fatal("one worker is still there")
	default:
	}
}

func pidsOf(f *Fleet) (pids []int) {
	for _, p := range f.processes {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// cli.md, section 8.7: the kernel ends the workers if smg is killed
func TestWorkersOfAKilledProcessEnd(t *testing.T) {
	require.NoError(t, adoptOrphans())
	b := plan(t, "")
	parent := exec.Command(os.Args[0], strconv.Itoa(b.workers[0].Port))
	parent.Env = append(os.Environ(), asStandIn+"=parent", "SMG_TEST_DIR="+b.dir, "GORACE=atexit_sleep_ms=0")
	out, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready <nil>\n", line)
	require.NoError(t, parent.Process.Kill())
	_, _ = io.Copy(io.Discard, out)
	require.Error(t, parent.Wait())
	require.Eventually(t, func() bool { return b.termed(b.workers[0]) }, patience, time.Millisecond)
	_, gone := killChildren()
	require.True(t, gone)
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (a) S 3 4"))
	f.Add([]byte("12 (a) b) (c)) R 3 4"))
	f.Add([]byte("12 ("))
	f.Add([]byte(") S"))
	f.Fuzz(func(t *testing.T, line []byte) {
		pid, parent, ok := parseStat(line)
		if !ok && (pid != 0 && parent != 0) {
			t.Fatalf("%q is not read, but gives %d and %d", line, pid, parent)
		}
	})
}

func TestParseStat(t *testing.T) {
	pid, parent, ok := parseStat([]byte("12 (a) b) (c)) R 3 4"))
	require.True(t, ok)
	require.Equal(t, []int{12, 3}, []int{pid, parent})
	for _, bad := range []string{"", "12", "x (a) S 3", "12 (a) S", "12 (a) S y"} {
		_, _, ok := parseStat([]byte(bad))
		require.False(t, ok, bad)
	}
}
