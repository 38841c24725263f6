package launch

import (
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cli.md, section 8.5
func TestEngineCommands(t *testing.T) {
	tests := []struct {
		name, want string
		spec       Spec
	}{
		{
			"sglang", "python3 -m sglang.launch_server --model-path m --host h --port 9 --x 1",
			Spec{Backend: SGLang, EngineArgs: []string{"--x", "1"}},
		},
		{"vllm", "python3 -m vllm.entrypoints.openai.api_server --model m --host h --port 9", Spec{Backend: VLLM}},
		{
			"sglang reports cached tokens", "python3 -m sglang.launch_server --model-path m --host h --port 9 --enable-cache-report",
			Spec{Backend: SGLang, UsageDetails: true},
		},
		{
			"vllm reports cached tokens", "python3 -m vllm.entrypoints.openai.api_server --model m --host h --port 9 --enable-prompt-tokens-details",
			Spec{Backend: VLLM, UsageDetails: true},
		},
		{
			"tensor parallelism is passed on in the spelling that all engines know", "python3 -m vllm.entrypoints.openai.api_server --model m --host h --port 9 --tensor-parallel-size 2",
			Spec{Backend: VLLM, TensorParallel: 2},
		},
		{
			"flags that smg sets are taken out", "python3 -m vllm.entrypoints.openai.api_server --model m --host h --port 9 --model-path p --a b",
			Spec{Backend: VLLM, EngineArgs: strings.Fields("--model x --host=y --model-path p --port 1 --uds /s --a b")},
		},
		{
			"sglang has other flags of its own", "python3 -m sglang.launch_server --model-path m --host h --port 9 --uds /s",
			Spec{Backend: SGLang, EngineArgs: strings.Fields("--model x --model-path=p --uds /s")},
		},
		{
			"a flag without its value leaves the next one", "python3 -m vllm.entrypoints.openai.api_server --model m --host h --port 9 --a",
			Spec{Backend: VLLM, EngineArgs: strings.Fields("--host --a")},
		},
		{
			"a command of one's own", `run me here|h:9|m/3|9`,
			Spec{Command: `'run me here' {host}:{port} "{model}"/{rank} {port}`},
		},
		{"flags follow a command of one's own, even those with smg's names", `x|--host|y`, Spec{Command: "x", EngineArgs: []string{"--host", "y"}}},
		{"a command of one's own knows how many GPUs it is for", `x`, Spec{Command: "x", TensorParallel: 2, UsageDetails: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Python, tt.spec.Model = "python3", "m"
			got, err := tt.spec.argv("h", 9, 3)
			require.NoError(t, err)
			separator := " "
			if tt.spec.Command != "" {
				separator = "|"
			}
			require.Equal(t, tt.want, strings.Join(got, separator))
		})
	}
	_, err := Spec{Backend: "x"}.argv("h", 9, 0)
	require.EqualError(t, err, "no command is known for the backend 'x'")
}

// cli.md, section 8.1: --engine-command
func TestWordsOfACommand(t *testing.T) {
	tests := []struct {
		command string
		want    []string
		err     error
	}{
		{" a  b\tc\n", []string{"a", "b", "c"}, nil},
		{`a 'b c' "d e"f`, []string{"a", "b c", "d ef"}, nil},
		{`a '' "" b`, []string{"a", "", "", "b"}, nil},
		{`a\ b "\"" '\' \'`, []string{"a b", `"`, `\`, "'"}, nil},
		{`a "it's" 'so "so"'`, []string{"a", "it's", `so "so"`}, nil},
		{`a "b`, nil, errQuote},
		{`a 'b`, nil, errQuote},
		{`a \`, nil, errQuote},
		{` `, nil, errNoWords},
		{`'' a`, nil, errNoWords},
	}
	for _, tt := range tests {
		got, err := words(tt.command)
		require.Equal(t, tt.err, err, tt.command)
		require.Equal(t, tt.want, got, tt.command)
	}
}

func FuzzWords(f *testing.F) {
	for _, command := range []string{"a b", `a 'b c' "d\" e"`, `\`, `'`, "\xff 'é", "a\x00b"} {
		f.Add(command)
	}
	f.Fuzz(func(t *testing.T, command string) {
		list, err := words(command)
		if err != nil {
			return
		}
		if len(list) == 0 || list[0] == "" {
			t.Fatalf("%q names no program", command)
		}
		var quoted []string
		for _, w := range list {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := words(strings.Join(quoted, " "))
		if err != nil || strings.Join(again, "\x01") != strings.Join(list, "\x01") {
			t.Fatalf("%q is read as %q, and that as %q (%v)", command, list, again, err)
		}
	})
}

// cli.md, section 8.7
func TestGPUsOfWorkers(t *testing.T) {
	tests := []struct {
		name, environ string
		workers, n    int
		want          []string
		err           string
	}{
		{"without a variable they are counted", "", 2, 2, []string{"CUDA_VISIBLE_DEVICES=0,1", "CUDA_VISIBLE_DEVICES=2,3"}, ""},
		{"one worker has the first", "", 1, 1, []string{"CUDA_VISIBLE_DEVICES=0"}, ""},
		{"an empty variable is none", "CUDA_VISIBLE_DEVICES=", 1, 1, []string{"CUDA_VISIBLE_DEVICES=0"}, ""},
		{"a variable is a pool", "CUDA_VISIBLE_DEVICES=4,5,6,7", 2, 2, []string{"CUDA_VISIBLE_DEVICES=4,5", "CUDA_VISIBLE_DEVICES=6,7"}, ""},
		{"GPUs may have names", "CUDA_VISIBLE_DEVICES=GPU-a,\u00a0GPU-b", 2, 1, []string{"CUDA_VISIBLE_DEVICES=GPU-a", "CUDA_VISIBLE_DEVICES=GPU-b"}, ""},
		{
			"a pool may be too small", "CUDA_VISIBLE_DEVICES=4,5,6", 2, 2, nil,
			"CUDA_VISIBLE_DEVICES names 3 GPUs, and worker 1 of those with 2 each needs numbers 2 to 3 of them (counted from 0)",
		},
		{"HIP has the pool", "HIP_VISIBLE_DEVICES=4,5", 2, 1, []string{"HIP_VISIBLE_DEVICES=4", "HIP_VISIBLE_DEVICES=5"}, ""},
		{"ROCR has the pool", "ROCR_VISIBLE_DEVICES=4,5", 2, 1, []string{"ROCR_VISIBLE_DEVICES=4", "ROCR_VISIBLE_DEVICES=5"}, ""},
		{"HIP counts within what ROCR shows", "ROCR_VISIBLE_DEVICES=4,5 HIP_VISIBLE_DEVICES=0,1", 2, 1, []string{"HIP_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=1"}, ""},
		{
			"CUDA and HIP agree", "HIP_VISIBLE_DEVICES=4,5 CUDA_VISIBLE_DEVICES=4,5", 2, 1,
			[]string{"CUDA_VISIBLE_DEVICES=4 HIP_VISIBLE_DEVICES=4", "CUDA_VISIBLE_DEVICES=5 HIP_VISIBLE_DEVICES=5"},
			"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			environ := strings.Split(tt.environ, " ")
			got, err := gpuSlices(environ, tt.workers, tt.n)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			for rank := range got {
				require.Equal(t, tt.want[rank], strings.Join(got[rank], " "))
			}
			require.Len(t, got, len(tt.want))
		})
	}
}

// cli.md, section 8.6
func TestPortsAreFreeAndGoUp(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer used.Close()
	base := used.Addr().(*net.TCPAddr).Port
	for range 50 { // the gaps are random
		ports, err := freePorts("127.0.0.1", base, 3, []int{base + 1})
		require.NoError(t, err)
		require.Len(t, ports, 3)
		require.Greater(t, ports[0].number, base+1, "a port in use, and one that is taken, are passed over")
		require.Greater(t, ports[1].number, ports[0].number)
		require.Greater(t, ports[2].number, ports[1].number)
		release(ports)
	}
	_, err = freePorts("127.0.0.1", 65535, 2, nil)
	require.EqualError(t, err, "no free ports for 2 workers from 65535 upwards")
	ports, err := freePorts("127.0.0.1", 65535, 1, nil)
	require.NoError(t, err, "the port of the failure has been given back")
	release(ports)
	_, err = freePorts("192.0.2.1", 31000, 1, nil) // nobody's address
	require.ErrorContains(t, err, "workers cannot listen on 192.0.2.1: ")
}

// An engine may take minutes until it binds its port.
func TestTwoPlansDoNotShareAPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("left out: ports are reserved on Linux alone")
	}
	spec := Spec{Command: "x", Replicas: 4, Host: "127.0.0.1", BasePort: 31000}
	seen := map[int]bool{}
	for range 10 {
		workers, err := spec.Plan()
		require.NoError(t, err)
		for _, w := range workers {
			require.False(t, seen[w.Port])
			seen[w.Port] = true
			defer w.held.Close()
		}
	}
}

// cli.md, sections 8.6 and 8.7
func TestPlan(t *testing.T) {
	spec := Spec{
		Backend: VLLM, Model: "m", Python: "p", Replicas: 2, TensorParallel: 2, Host: "[::1]", BasePort: 31000,
		Environ: []string{"A=b", "CUDA_VISIBLE_DEVICES=4,5,6,7"},
	}
	workers, err := spec.Plan()
	require.NoError(t, err)
	require.Len(t, workers, 2)
	defer release([]port{{held: workers[0].held}, {held: workers[1].held}})
	for rank, gpus := range []string{"4,5", "6,7"} {
		w := workers[rank]
		port := strconv.Itoa(w.Port)
		require.Equal(t, rank, w.Rank)
		require.Equal(t, "http://[::1]:"+port, w.URL)
		require.Equal(t, "p -m vllm.entrypoints.openai.api_server --model m --host ::1 --port "+port+" --tensor-parallel-size 2", strings.Join(w.Argv, " "))
		require.Equal(t, append(spec.Environ[:2:2], "PYTHONUNBUFFERED=1", "CUDA_VISIBLE_DEVICES="+gpus), w.Env)
	}
	for name, bad := range map[string]Spec{
		"GPUs":    {Backend: VLLM, Replicas: 2, Host: "127.0.0.1", BasePort: 31000, Environ: []string{"CUDA_VISIBLE_DEVICES=1"}},
		"ports":   {Backend: VLLM, Replicas: 2, Host: "127.0.0.1", BasePort: 65535},
		"command": {Command: "'", Replicas: 1, Host: "127.0.0.1", BasePort: 31000},
	} {
		_, err := bad.Plan()
		require.Error(t, err, name)
	}
}

func TestSecretsStayOutOfTheLog(t *testing.T) {
	require.Equal(t, "x --api-key *** --hf-token=*** --max-tokens *** --port 1",
		masked(strings.Fields("x --api-key k --hf-token=t --max-tokens 5 --port 1")))
}
