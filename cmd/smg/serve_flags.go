package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/workers/launch"
)

// engineFlags are those of `smg serve` when it starts engines.
type engineFlags struct {
	EngineConfig `group:"Engines"`
	Gateway      server.Config `embed:"" prefix:"router-"`
	File         string        `name:"router-config" placeholder:"FILE" group:"Gateway" help:"Read the flags of the gateway from this file; its keys are those of launch."`
}

// EngineConfig says which engines are started.
type EngineConfig struct {
	Backend            string         `name:"backend" default:"sglang" enum:"sglang,vllm,trtllm,tokenspeed" variable:"SMG_DEFAULT_BACKEND" help:"Engine: ${enum}; the last two are not built yet. SMG_DEFAULT_BACKEND sets another default, and does not start engines by itself."`
	Model              string         `name:"model" aliases:"model-path" placeholder:"MODEL" help:"Path or name of the model, for the engine. Also --model-path."`
	ConnectionMode     string         `name:"connection-mode" default:"http" enum:"http,grpc,zmq" help:"How the gateway talks to the engines: ${enum}; the last two are not built yet."`
	DataParallelSize   int            `name:"data-parallel-size" aliases:"dp-size" default:"1" help:"Engines to start (at least 1), each with its own GPUs. With one, the policy is passthrough, without retries and circuit breaker."`
	TensorParallelSize *int           `name:"tensor-parallel-size" aliases:"tp-size,tp_size,tp" placeholder:"N" help:"GPUs of each engine (at least 1); the engine is told too. Also --tp-size, --tp, -tp. Unset: one."`
	WorkerHost         string         `name:"worker-host" default:"127.0.0.1" help:"Address that the engines listen on and are reached at."`
	WorkerBasePort     int            `name:"worker-base-port" default:"31000" help:"First port, 1 to 65535, that is tried for an engine."`
	WorkerStartup      server.Seconds `name:"worker-startup-timeout" default:"300" help:"Seconds (at least 1) until all engines must be ready."`
	TokenUsageDetails  bool           `name:"enable-token-usage-details" help:"Have the engines report cached tokens in usage."`
	Python             string         `name:"python" default:"python3" help:"Interpreter that runs the engine."`
	EngineCommand      string         `name:"engine-command" placeholder:"COMMAND" help:"Start this instead of the backend's own command: words as in a shell, in which {host}, {port}, {model} and {rank} are replaced. Flags for the engine follow; --tensor-parallel-size does not."`
}

// starters are the flags that make serve start engines.
var starters = []string{"--backend", "--model", "--model-path", "--engine-command"}

// startsEngines tells which face of serve a command line means. It looks for a starter before a bare "--".
func startsEngines(tokens []string) bool {
	for _, token := range tokens {
		name, _, _ := strings.Cut(token, "=")
		if name == "--" {
			return false
		}
		if slices.Contains(starters, name) {
			return true
		}
	}
	return false
}

// engineParser makes the parser of the flags. Three of the gateway's have no prefix, and two of those other defaults than in launch.
func engineParser(flags *engineFlags, options ...kong.Option) (*kong.Kong, error) {
	plain := map[string]string{"router-host": "127.0.0.1", "router-port": "8080", "router-worker-urls": ""}
	return kong.New(flags, append(options, kong.PostBuild(func(k *kong.Kong) error {
		for _, flag := range k.Model.Flags {
			if !isEngineFlag(flag) { // kong gives the prefix to names alone
				flag.Aliases = withPrefix("router-", flag.Aliases)
			}
			value, ok := plain[flag.Name]
			if !ok {
				flag.Hidden = flag.Hidden || flag.Name != "router-config" && strings.HasPrefix(flag.Name, "router-") // they are in launch's help
				continue
			}
			flag.Name = strings.TrimPrefix(flag.Name, "router-")
			flag.Hidden = flag.Name == "worker-urls"
			if value != "" {
				flag.Default = value
			}
			flag.Group = &kong.Group{Key: "Gateway", Title: "Gateway"}
		}
		return nil
	}))...)
}

// BeforeResolve is called by kong when the command line has been read. The gateway's half has the other sources of launch, under
// the same names there: SMG_FLAG_POLICY and the key "policy" are --router-policy. The engines' half has variables alone.
func (f *engineFlags) BeforeResolve(ctx *kong.Context) error {
	src := launchSources{}
	known := map[string]bool{}
	path := ""
	for _, flag := range ctx.Flags() {
		if flag.Name == "router-config" {
			if path, _ = ctx.FlagValue(flag).(string); path == "" {
				_, path = environment(asInLaunch(flag))
			}
		}
		for _, name := range namesOf(asInLaunch(flag)) {
			known[name] = flag.Name != "router-config" && flag.Name != "help" && !isEngineFlag(flag)
		}
	}
	if path != "" {
		values, err := readFile(path, known)
		if err != nil {
			return fmt.Errorf("--router-config: %w", err)
		}
		src.file = values
	}
	ctx.AddResolver(&src)
	return nil
}

// isForEngines tells whether serve knows a flag, written with its dashes, when it starts engines.
func isForEngines(name string) bool {
	parser, err := engineParser(&engineFlags{}, mappers()...)
	return err == nil && slices.ContainsFunc(parser.Model.Flags, func(f *kong.Flag) bool {
		return "--"+f.Name == name || slices.Contains(f.Aliases, strings.TrimPrefix(name, "--"))
	})
}

func withPrefix(prefix string, names []string) (prefixed []string) {
	for _, name := range names {
		prefixed = append(prefixed, prefix+name)
	}
	return prefixed
}

func isEngineFlag(flag *kong.Flag) bool { return flag.Group != nil && flag.Group.Key == "Engines" }

// launchSources are sources that know the flags by their names in launch.
type launchSources struct{ sources }

// Resolve returns the value of a flag, or nil if the sources have none.
func (s *launchSources) Resolve(ctx *kong.Context, path *kong.Path, flag *kong.Flag) (any, error) {
	return s.sources.Resolve(ctx, path, asInLaunch(flag))
}

// asInLaunch is the flag with the name that it has in launch.
func asInLaunch(flag *kong.Flag) *kong.Flag {
	renamed, value := *flag, *flag.Value
	value.Name = strings.TrimPrefix(value.Name, "router-")
	renamed.Value = &value
	renamed.Aliases = nil
	for _, alias := range flag.Aliases {
		renamed.Aliases = append(renamed.Aliases, strings.TrimPrefix(alias, "router-"))
	}
	return &renamed
}

// misuse says what is wrong with a combination of flags, nil if nothing is.
func (f *engineFlags) misuse() error {
	text := ""
	switch {
	case len(f.Gateway.WorkerURLs) > 0:
		text = "--worker-urls (or the variable or file that sets it) does not go with engines that serve starts: their URLs are made by smg; leave it out, or leave out " + strings.Join(starters, ", ")
	case f.Backend == "trtllm":
		text = "--backend trtllm goes with --connection-mode grpc alone, and gRPC workers are not built yet"
	case f.Backend == "tokenspeed":
		text = "--backend tokenspeed goes with --connection-mode zmq alone, and ZMQ workers are not built yet"
	case f.ConnectionMode == "grpc":
		text = "--backend " + f.Backend + " with --connection-mode grpc: gRPC workers are not built yet; use --connection-mode http"
	case f.ConnectionMode == "zmq" && f.Backend == launch.SGLang:
		text = "--backend sglang does not go with --connection-mode zmq"
	case f.ConnectionMode == "zmq":
		text = "--backend " + f.Backend + " with --connection-mode zmq: ZMQ workers are not built yet; use --connection-mode http"
	case f.Model == "" && f.EngineCommand == "":
		text = "--model is missing: --backend " + f.Backend + " needs one (before a bare --)"
	default:
		return nil
	}
	return &usageError{text: text, command: serveCommand}
}

// violations are all values that are out of range, under the names that the flags have here.
func (f *engineFlags) violations() (found invalid) {
	atLeast := func(flag string, n int64, low int64) {
		if n < low {
			found = append(found, server.Violation{Flag: flag, Value: fmt.Sprint(n), Reason: fmt.Sprintf("must be at least %d", low)})
		}
	}
	atLeast("--data-parallel-size", int64(f.DataParallelSize), 1)
	if f.TensorParallelSize != nil {
		atLeast("--tensor-parallel-size", int64(*f.TensorParallelSize), 1)
	}
	atLeast("--worker-startup-timeout", int64(f.WorkerStartup), 1)
	if f.WorkerBasePort < 1 || f.WorkerBasePort > 65535 {
		found = append(found, server.Violation{Flag: "--worker-base-port", Value: fmt.Sprint(f.WorkerBasePort), Reason: "must be between 1 and 65535"})
	}
	for _, v := range f.Gateway.Validate() {
		if v.Flag != "--host" && v.Flag != "--port" {
			v.Flag = "--router-" + strings.TrimPrefix(v.Flag, "--")
		}
		found = append(found, v)
	}
	return found
}
