package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers/launch"
)

// serveCommand is what errors call the command.
const serveCommand = "smg serve"

// serveCmd is serve without engines of its own: launch under another name. With them its flags are engineFlags, which this
// parser never sees.
type serveCmd struct{ launchCmd }

// workerStopLimit is how long engines may take to end by themselves; see cli.md, section 8.10.
var workerStopLimit = 30 * time.Second

// serveEngines starts engines and the gateway in front of them. args are those behind the command.
func (c *cli) serveEngines(args []string) error {
	var flags engineFlags
	parser, err := engineParser(&flags, c.options()...)
	if err != nil {
		return err // a bug in a tag, found by any test
	}
	known := arities(parser.Model.Flags)
	known["-tp"] = oneValue // vLLM's short form, which kong cannot have
	own, rest := split(args, known)
	if asksForHelp(own) {
		return c.run([]string{"serve", "--help"})
	}
	if _, err := parser.Parse(spelledOut(own)); err != nil {
		if errors.Is(err, errUnreadable) {
			return err
		}
		return &usageError{text: explained(parser, err.Error()), command: serveCommand}
	}
	if err := flags.misuse(); err != nil {
		return err
	}
	flags.shareKey(rest)
	if found := flags.violations(); len(found) > 0 {
		return found
	}
	workers, err := flags.plan(rest).Plan()
	if err != nil {
		return err
	}
	return c.front(&flags, workers)
}

func asksForHelp(own []string) bool {
	for _, token := range own {
		if token == "--help" || token == "-h" {
			return true
		}
	}
	return false
}

// spelledOut writes -tp as the parser knows it.
func spelledOut(own []string) []string {
	for i, token := range own {
		if rest, ok := strings.CutPrefix(token, "-tp"); ok && (rest == "" || rest[0] == '=') {
			own[i] = "--tp" + rest
		}
	}
	return own
}

func (f *engineFlags) plan(engineArgs []string) launch.Spec {
	g := &f.Gateway
	taken := []int{g.Port, g.PrometheusPort}
	if g.HealthCheckPort != nil {
		taken = append(taken, *g.HealthCheckPort)
	}
	tensors := 0
	if f.TensorParallelSize != nil {
		tensors = *f.TensorParallelSize
	}
	return launch.Spec{
		Backend: f.Backend, Model: f.Model, Python: f.Python, Command: f.EngineCommand, EngineArgs: engineArgs,
		UsageDetails: f.TokenUsageDetails, Replicas: f.DataParallelSize, TensorParallel: tensors,
		Host: f.WorkerHost, BasePort: f.WorkerBasePort, TakenPorts: taken,
	}
}

// front runs the engines and the gateway.
func (c *cli) front(flags *engineFlags, workers []launch.Worker) error {
	cfg := &flags.Gateway
	c.begin(cfg)
	logs, err := telemetry.NewLogger(cfg.LogConfig.Options())
	if err != nil {
		return err
	}
	defer logs.Close()
	log := logs.Target("smg::serve")
	if len(workers) == 1 {
		alone(cfg, log)
	}
	return launch.Run(workers,
		launch.Options{Stdout: os.Stdout, Stderr: os.Stderr, Log: log, Adopt: true},
		launch.Limits{Ready: flags.WorkerStartup.Duration(), Stop: workerStopLimit},
		launch.Gateway{Address: cfg.Address(), Serve: func(ctx context.Context, urls []string) error {
			cfg.WorkerURLs = urls
			return run(ctx, cfg)
		}})
}

// alone takes from the gateway what is of use with several workers only: there is nobody else to choose, or to try again.
func alone(cfg *server.Config, log *slog.Logger) {
	cfg.Policy, cfg.DisableRetries, cfg.DisableBreaker = "passthrough", true, true
	log.Info("one worker: the policy is passthrough")
	log.Info("one worker: retries are off")
	log.Info("one worker: the circuit breaker is off")
}

// printEngineHelp is the part of serve's help that is about engines.
func (c *cli) printEngineHelp(help *bytes.Buffer, options kong.HelpOptions) error {
	help.WriteString(engineUsage)
	var flags engineFlags
	parser, err := engineParser(&flags, append(c.options(),
		kong.PostBuild(func(k *kong.Kong) error { k.Model.HelpFlag.Hidden = true; return nil }))...)
	if err != nil {
		return err
	}
	ctx, err := kong.Trace(parser, nil)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	ctx.Stdout = &page
	options.NoAppSummary = true
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	help.WriteString("\n" + strings.TrimLeft(page.String(), "\n") + engineUsageEnd)
	return nil
}

const engineUsage = `Usage: smg serve --model MODEL [--backend BACKEND] [flags] [engine flags] [-- engine flags]

Start engines on this host, wait until they are ready, and start the gateway in front of them. The engines end with it.
--model, --backend or --engine-command on the command line makes it so.
`

const engineUsageEnd = `
The other flags of the gateway, below, are written --router-NAME here: --router-policy, --router-log-level. Their environment
variables and the keys of the file stay those of launch. Any other flag goes to each engine as it is, and so does
everything behind a bare --.

Without engines of its own, it is smg launch:

`
