package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = 60 * time.Second // how long a test waits for what must come; for a broken program alone

// serving is smg with stand-in engines, in a process of its own.
type serving struct {
	*exec.Cmd
	dir, url string
	log      text
}

// text is a writer for several goroutines.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// serve starts a program as `smg serve`. What it leaves behind becomes a child of this test, so that nothing can hide.
func serve(t *testing.T, program string, args ...string) *serving {
	t.Helper()
	const setChildSubreaper = 36
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	require.Zero(t, errno)
	port := strconv.Itoa(unusedPort(t))
	s := &serving{dir: t.TempDir(), url: "http://127.0.0.1:" + port}
	s.Cmd = exec.Command(program, append([]string{
		"serve", "--port", port, "--router-prometheus-host", "127.0.0.1", "--router-prometheus-port", "0",
		"--router-worker-startup-check-interval", "1", "--router-log-level", "debug",
	}, args...)...)
	s.Env = append(os.Environ(), "SMG_TEST_DIR="+s.dir, "GORACE=atexit_sleep_ms=0")
	s.Stdout, s.Stderr = &s.log, &s.log
	require.NoError(t, s.Start())
	t.Cleanup(func() {
		if s.ProcessState == nil {
			_ = s.Process.Kill()
			_ = s.Wait()
			reap(t)
		}
		if t.Failed() {
			t.Log(s.log.String())
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

// is waits for a file that an engine writes.
func (s *serving) is(t *testing.T, pattern string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.has(pattern) }, patience, 5*time.Millisecond, pattern)
}

func (s *serving) has(pattern string) bool {
	found, _ := filepath.Glob(filepath.Join(s.dir, pattern))
	return len(found) > 0
}

func (s *serving) says(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), text) }, patience, 5*time.Millisecond, text)
}

func (s *serving) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, s.Process.Signal(sig))
}

// ends waits for the end, and demands an exit code and that no process is left.
func (s *serving) ends(t *testing.T, code int) {
	t.Helper()
	_ = s.Wait()
	require.Equal(t, code, s.ProcessState.ExitCode())
	require.Empty(t, children(t), "processes are left behind")
}

// reap ends what a test that failed has left, so that it does not fail the next one.
func reap(t *testing.T) {
	t.Helper()
	for _, line := range children(t) {
		id, _, _ := strings.Cut(line, " ")
		pid, err := strconv.Atoi(id)
		require.NoError(t, err)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
}

// children are the processes whose parent is this test.
func children(t *testing.T) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		line, _ := os.ReadFile(file)
		_, fields, ok := strings.Cut(string(line), ") ")
		if f := strings.Fields(fields); ok && len(f) > 1 && f[1] == strconv.Itoa(os.Getpid()) {
			found = append(found, string(line))
		}
	}
	return found
}

func (s *serving) ready() bool {
	answer, err := http.Get(s.url + "/readiness")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// chat begins a stream and returns it when its first event has come.
func (s *serving) chat(t *testing.T) *http.Response {
	t.Helper()
	s.says(t, "the gateway listens") // from now on signals are the gateway's
	require.Eventually(t, s.ready, patience, 10*time.Millisecond)
	answer, err := http.Post(s.url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	first := make([]byte, len("data: {\"n\":1}\n\n"))
	_, err = io.ReadFull(answer.Body, first)
	require.NoError(t, err)
	return answer
}

// cli.md, section 8.10, the check: the client gets the full stream, then the child gets SIGTERM
func TestServeDrainsBeforeItStopsTheEngines(t *testing.T) {
	s := serve(t, "smg", "--engine-command", "standin {port}", "--model", "m")
	answer := s.chat(t)
	s.signal(t, syscall.SIGTERM)
	s.says(t, "draining")
	require.False(t, s.has("term-*"))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "finish"), nil, 0o600))
	rest, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "data: {\"n\":2}\n\ndata: [DONE]\n\n", string(rest))
	require.False(t, s.has("term-*"), "the settle window is not over")
	s.ends(t, exitOK)
	require.True(t, s.has("term-*"))
	for _, line := range []string{"the policy is passthrough", "retries are off", "the circuit breaker is off"} {
		require.Equal(t, 1, strings.Count(s.log.String(), line))
	}
}

// cli.md, section 8.10: a child that ignores SIGTERM
func TestServeKillsEnginesThatDoNotEnd(t *testing.T) {
	s := serve(t, "brisk-smg", "--engine-command", "standin {port} --deaf", "--dp-size", "2", "--router-shutdown-grace-period-secs", "0")
	s.says(t, "the gateway listens") // from now on signals are the gateway's
	s.signal(t, syscall.SIGTERM)
	s.ends(t, exitOK)
	require.Contains(t, s.log.String(), "workers do not end, killing them")
}

// cli.md, sections 8.10 and 9: interrupted before the gateway was up
func TestASignalDuringTheStartOfServe(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		s := serve(t, "smg", "--engine-command", "standin {port} --mute", "--dp-size", "2")
		s.is(t, "up-*")
		s.signal(t, sig)
		s.ends(t, code)
		require.NotContains(t, s.log.String(), "error:")
	}
}

// cli.md, section 8.8
func TestAnEngineThatCannotStartEndsServe(t *testing.T) {
	s := serve(t, "smg", "--engine-command", "standin {port}", "--", "--exit3")
	s.ends(t, exitFailed)
	require.Regexp(t, `(?m)^error: worker 0 on port \d+ exited with code 3 before it was ready$`, s.log.String())

	s = serve(t, "smg", "--engine-command", "standin {port}", "--worker-startup-timeout", "1", "--mute")
	s.ends(t, exitFailed)
	require.Regexp(t, `(?m)^error: worker 0 on port \d+: not ready in time \(limit 1s\)$`, s.log.String())
}

// cli.md, section 8.10: all workers have exited
func TestServeEndsWithItsEngines(t *testing.T) {
	s := serve(t, "smg", "--engine-command", "standin {port} --gone", "--router-shutdown-grace-period-secs", "0")
	s.says(t, "the gateway listens") // from now on signals are the gateway's
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "crash"), nil, 0o600))
	s.ends(t, exitFailed)
	require.Contains(t, s.log.String(), "worker exited with code 5")
	require.Contains(t, s.log.String(), "error: all workers have exited\n")
}

// DECISIONS 49: the second signal ends the settle window, the third ends everything at once
func TestTheThirdSignalEndsServeAtOnce(t *testing.T) {
	s := serve(t, "smg", "--engine-command", "standin {port} --deaf", "--model", "m")
	s.chat(t)
	s.signal(t, syscall.SIGTERM)
	s.says(t, "draining")
	s.signal(t, syscall.SIGTERM)
	s.says(t, "the settle window ends")
	require.NotEmpty(t, children(t))
	require.Never(t, func() bool { return s.ProcessState != nil }, 100*time.Millisecond, 10*time.Millisecond)
	s.signal(t, syscall.SIGTERM)
	s.ends(t, exitFailed)
	require.Contains(t, s.log.String(), "error: stopped at once by a third signal")
}
