package launch

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The engines that have a built-in command.
const (
	SGLang = "sglang"
	VLLM   = "vllm"
)

// Spec says which engines to start.
type Spec struct {
	Backend        string   // SGLang or VLLM; not read if Command is set
	Model          string   // path or name, handed to the engine
	Python         string   // interpreter of the built-in commands
	Command        string   // replaces the built-in command; see [Spec.Plan]
	EngineArgs     []string // for each engine; flags that the built-in command sets itself are taken out
	UsageDetails   bool     // have the engine report cached tokens in its usage; not read if Command is set
	Replicas       int      // workers, at least 1
	TensorParallel int      // GPUs of each worker; 0 is 1, and the engine is not told
	Host           string   // where the workers listen and are reached; IPv6 with or without brackets
	BasePort       int      // first port that is tried, 1 to 65535
	TakenPorts     []int    // ports that no worker may get
	Environ        []string // NAME=value of the workers; nil is this process's own
}

// Worker is an engine that can be started.
type Worker struct {
	Rank int    // from 0
	Port int    // where it will listen
	URL  string // http://host:port
	Argv []string
	Env  []string // NAME=value, later ones win

	held io.Closer // keeps other smg processes away from the port; closed when the worker has ended
}

// Plan returns the workers, in the order of their ranks. It starts nothing; the error is one for the user: a command that
// cannot be read, GPUs or ports that do not suffice. On Linux no other Plan on this host gets the same ports while this
// process lives, or until the workers have been started and have ended.
//
// Command is split into words as a shell would, without any expansion: quotes keep a word together. In each word {host},
// {port}, {model} and {rank} are replaced, and EngineArgs follow the last one.
func (s Spec) Plan() ([]Worker, error) {
	environ := s.Environ
	if environ == nil {
		environ = os.Environ()
	}
	gpus, err := gpuSlices(environ, s.Replicas, max(1, s.TensorParallel))
	if err != nil {
		return nil, err
	}
	host := strings.TrimSuffix(strings.TrimPrefix(s.Host, "["), "]")
	ports, err := freePorts(host, s.BasePort, s.Replicas, s.TakenPorts)
	if err != nil {
		return nil, err
	}
	workers := make([]Worker, 0, len(ports))
	for rank, port := range ports {
		argv, err := s.argv(host, port.number, rank)
		if err != nil {
			release(ports)
			return nil, err
		}
		workers = append(workers, Worker{
			Rank: rank, Port: port.number, URL: "http://" + net.JoinHostPort(host, strconv.Itoa(port.number)), Argv: argv,
			Env: slices.Concat(environ, []string{"PYTHONUNBUFFERED=1"}, gpus[rank]), held: port.held,
		})
	}
	return workers, nil
}

func (s Spec) argv(host string, port, rank int) ([]string, error) {
	if s.Command != "" {
		argv, err := words(s.Command)
		if err != nil {
			return nil, err
		}
		fill := strings.NewReplacer("{host}", host, "{port}", strconv.Itoa(port), "{model}", s.Model, "{rank}", strconv.Itoa(rank))
		for i := range argv {
			argv[i] = fill.Replace(argv[i])
		}
		return append(argv, s.EngineArgs...), nil
	}
	e, ok := engines[s.Backend]
	if !ok {
		return nil, fmt.Errorf("no command is known for the backend '%s'", s.Backend)
	}
	return e.argv(s, host, port), nil
}
