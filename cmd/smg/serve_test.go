package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// served returns the configuration of the gateway in front of stand-in engines, and what the engines were told.
func served(t *testing.T, args ...string) (cfg *server.Config, engines []string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("SMG_TEST_DIR", dir)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	cfg = launched(t, append([]string{"serve", "--engine-command", "standin {port}", "--port", strconv.Itoa(unusedPort(t)), "--router-log-level", "error"}, args...)...)
	files, err := filepath.Glob(filepath.Join(dir, "args-*"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		engines = append(engines, string(text))
	}
	return cfg, engines
}

// cli.md, sections 8.1 and 8.9
func TestOneEngineNeedsNoChoice(t *testing.T) {
	one, engines := served(t, "--data-parallel-size", "1", "--router-policy", "random")
	require.Equal(t, "passthrough", one.Policy)
	require.Equal(t, 1, one.Attempts())
	require.True(t, one.DisableBreaker)
	require.Len(t, one.WorkerURLs, 1)
	require.Len(t, engines, 1)

	two, engines := served(t, "--dp-size", "2", "--router-policy", "random")
	require.Equal(t, "random", two.Policy)
	require.Equal(t, 5, two.Attempts())
	require.False(t, two.DisableBreaker)
	require.Len(t, two.WorkerURLs, 2)
	require.Len(t, engines, 2)
}

// cli.md, section 8.1: other defaults than launch, flags with a prefix; all else goes to the engine
func TestTheFlagsOfServe(t *testing.T) {
	cfg, engines := served(t, "--model", "m", "--x", "1", "--router-routing-key-headers", "X-A", "X-B", "--log-level", "debug", "--worker-base-port", "31500", "--", "--host", "h")
	require.Equal(t, "127.0.0.1", cfg.Host)
	require.Equal(t, []string{"x-a", "x-b"}, cfg.RoutingKeyHeaders)
	require.Equal(t, "error", cfg.LogLevel)
	require.Contains(t, cfg.WorkerURLs[0], "http://127.0.0.1:315")
	require.Equal(t, []string{"--x 1 --log-level debug --host h"}, engines)
}

// cli.md, section 8.1: every flag of launch is there
func TestServeHasEveryFlagOfLaunch(t *testing.T) {
	known := serveArities(t)
	for _, flag := range launchFlags(t) {
		name := "--router-" + flag.Name
		if flag.Name == "host" || flag.Name == "port" || flag.Name == "worker-urls" {
			name = "--" + flag.Name
		}
		takes, ok := known[name]
		require.True(t, ok, name)
		require.Equal(t, flag.IsBool(), takes == noValue, name)
		require.Equal(t, flag.IsSlice(), takes == manyValues, name)
	}
}

// cli.md, section 8.1: the gateway's defaults
func TestTheDefaultsOfServe(t *testing.T) {
	var flags engineFlags
	parser, err := engineParser(&flags, mappers()...)
	require.NoError(t, err)
	_, err = parser.Parse([]string{"--model", "m"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:8080", flags.Gateway.Address())
	require.Equal(t, EngineConfig{
		Backend: "sglang", Model: "m", ConnectionMode: "http", DataParallelSize: 1, WorkerHost: "127.0.0.1",
		WorkerBasePort: 31000, WorkerStartup: 300, Python: "python3",
	}, flags.EngineConfig)
	require.NoError(t, flags.misuse())
	require.Empty(t, flags.violations())
	flags.Gateway.HealthCheckPort = new(int)
	*flags.Gateway.HealthCheckPort = 9
	require.Equal(t, []int{8080, 29000, 9}, flags.plan(nil).TakenPorts)
}

// cli.md, section 4: the gateway's half reads what launch reads, under the same names
func TestTheSourcesOfServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "smg.yaml")
	require.NoError(t, os.WriteFile(file, []byte("policy: power_of_two\nlog-json: true\nrequest-timeout-secs: 7\n"), 0o600))
	t.Setenv("SMG_FLAG_POLICY", "random")
	t.Setenv("SMG_FLAG_ROUTER_POLICY", "round_robin")
	t.Setenv("SMG_FLAG_DATA_PARALLEL_SIZE", "2")
	cfg, _ := served(t, "--router-config", file, "--router-request-timeout-secs", "8")
	require.Equal(t, "random", cfg.Policy, "the variable wins over the file")
	require.True(t, cfg.LogJSON)
	require.Equal(t, server.Seconds(8), cfg.RequestTimeout)
	require.Len(t, cfg.WorkerURLs, 2)

	t.Setenv("SMG_FLAG_CONFIG", file)
	t.Setenv("SMG_FLAG_POLICY", "")
	cfg, _ = served(t)
	require.Equal(t, "power_of_two", cfg.Policy)
}

// cli.md, sections 8.1, 8.2 and 9
func TestWhatServeRefuses(t *testing.T) {
	const urls = "--worker-urls (or the variable or file that sets it) does not go with engines that serve starts: their URLs are made by smg; leave it out, or leave out --backend, --model, --model-path, --engine-command"
	tests := []struct {
		name, args, want string
		code             int
	}{
		{"URLs of workers", "--model m --worker-urls http://a", urls, exitUsage},
		{"gRPC", "--backend vllm --model m --connection-mode grpc", "--backend vllm with --connection-mode grpc: gRPC workers are not built yet; use --connection-mode http", exitUsage},
		{"ZMQ", "--backend vllm --model m --connection-mode zmq", "--backend vllm with --connection-mode zmq: ZMQ workers are not built yet; use --connection-mode http", exitUsage},
		{"ZMQ with an engine that does not speak it", "--backend sglang --model m --connection-mode zmq", "--backend sglang does not go with --connection-mode zmq", exitUsage},
		{"trtllm", "--backend trtllm --model m", "--backend trtllm goes with --connection-mode grpc alone, and gRPC workers are not built yet", exitUsage},
		{"tokenspeed", "--backend tokenspeed --model m", "--backend tokenspeed goes with --connection-mode zmq alone, and ZMQ workers are not built yet", exitUsage},
		{"another engine", "--backend x --model m", `--backend must be one of "sglang","vllm","trtllm","tokenspeed" but got "x"`, exitUsage},
		{"no model", "--backend vllm -- --model m", "--model is missing: --backend vllm needs one (before a bare --)", exitUsage},
		{"a model that is a flag", "--model --enforce-eager", "--model: needs a value", exitUsage},
		{"a misspelt flag of the gateway", "--model m --router-polcy x", "unknown flag --router-polcy, did you mean --router-policy?", exitUsage},
		{"a policy that does not exist", "--model m --router-policy best", `--router-policy must be one of "random","round_robin","passthrough","cache_aware","power_of_two","least_load","prefix_hash","consistent_hashing","manual","bucket","least_work" but got "best"`, exitUsage},
		{"a file that is not there", "--model m --router-config nowhere.yaml", "--router-config: cannot read the configuration: open nowhere.yaml: no such file or directory", exitFailed},
		{"flags for engines without any", "--dp-size 2", "unknown flag --dp-size: it is for engines, and serve starts them only with --model, --backend or --engine-command", exitUsage},
		{"no workers", "--model m --dp-size 0", "invalid --data-parallel-size: '0': must be at least 1", exitFailed},
		{"no GPUs", "--model m -tp=0", "invalid --tensor-parallel-size: '0': must be at least 1", exitFailed},
		{"no time", "--model m --worker-startup-timeout -1", "invalid --worker-startup-timeout: '-1': must be at least 1", exitFailed},
		{"no port", "--model m --worker-base-port 65536", "invalid --worker-base-port: '65536': must be between 1 and 65535", exitFailed},
		{"a gateway that cannot be", "--model m --router-cb-failure-threshold 0", "invalid --router-cb-failure-threshold: '0': must be at least 1", exitFailed},
		{"a gateway's port that cannot be", "--model m --port 0", "invalid --port: '0': must be between 1 and 65535", exitFailed},
		{"a command that is not whole", "--engine-command 'x", "the engine command has a quote that is not closed", exitFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stderr := refused(t, append([]string{"serve"}, strings.Fields(tt.args)...)...)
			first, rest, _ := strings.Cut(stderr, "\n")
			require.Equal(t, "error: "+tt.want, first)
			require.Equal(t, tt.code == exitUsage, rest == "run 'smg serve --help' for the flags\n")
			require.Equal(t, tt.code, code)
		})
	}
	t.Run("URLs of workers from the environment", func(t *testing.T) {
		t.Setenv("SMG_FLAG_WORKER_URLS", "http://a")
		code, stderr := refused(t, "serve", "--model", "m")
		require.Contains(t, stderr, urls)
		require.Equal(t, exitUsage, code)
	})
	t.Run("fewer GPUs than workers need", func(t *testing.T) {
		t.Setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
		code, stderr := refused(t, "serve", "--model", "m", "-tp", "2", "--dp-size", "2")
		require.Contains(t, stderr, "error: CUDA_VISIBLE_DEVICES names 3 GPUs, and worker 1 of those with 2 each needs numbers 2 to 3")
		require.Equal(t, exitFailed, code)
	})
}

// cli.md, section 8: one help for both faces
func TestTheHelpOfServe(t *testing.T) {
	var with, without strings.Builder
	require.Zero(t, smg([]string{"serve", "--help"}, &without, &without))
	require.Zero(t, smg([]string{"serve", "--model", "m", "-h", "--", "-h"}, &with, &with))
	require.Equal(t, without.String(), with.String())
	text := without.String()
	for _, flag := range []string{"--backend=", "--model=", "--data-parallel-size=", "--engine-command=", "--port=8080", "--port=30000", "--worker-urls URL ...", "--router-NAME"} {
		require.Contains(t, text, flag)
	}
	require.NotContains(t, text, "--router-worker-urls")
	require.NotContains(t, text, "--router-host")
}
