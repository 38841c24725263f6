package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"github.com/smg-go/smg/server"
)

// cli is one run of the program. Kong takes the exported fields for the commands.
type cli struct {
	Launch    launchCmd    `cmd:"" aliases:"start" help:"Start the gateway. The command that is meant if none is given."`
	Serve     serveCmd     `cmd:"" help:"Start engines and the gateway in front of them (--model), or the gateway alone."`
	Demo      demoCmd      `cmd:"" help:"Start the gateway in front of built-in mock engines, to try it."`
	Explain   explainCmd   `cmd:"" help:"Ask a gateway that runs which worker a request would go to, and why."`
	Simulate  simulateCmd  `cmd:"" help:"Tell which policy would suit the traffic of a recording, by a simulation."`
	Doctor    doctorCmd    `cmd:"" help:"Find out why something does not work."`
	Pipelines pipelinesCmd `cmd:"" help:"Print the stages of each route."`
	Config    configCmd    `cmd:"" help:"Look at the configuration."`
	Version   versionCmd   `cmd:"" help:"Print the version."`

	stdin          io.Reader
	stdout, stderr io.Writer
	helped         bool // help was asked for and has been printed
	bare           bool // no command was given
}

// configCmd is the parent of what is done with a configuration other than serving.
type configCmd struct {
	Check checkCmd `cmd:"" help:"Check the configuration and print it, without starting anything."`
}

func (c *cli) run(args []string) error {
	args = spelt(args)
	if len(args) > 0 && args[0] == "serve" && startsEngines(args[1:]) {
		return c.serveEngines(args[1:])
	}
	parser, err := kong.New(c, c.options()...)
	if err != nil {
		return err // a bug in a tag, found by any test
	}
	args = c.withCommand(args)
	ctx, err := parser.Parse(args)
	if c.helped {
		return nil
	}
	if err != nil {
		return usage(parser, args, err)
	}
	return ctx.Run(c)
}

func (c *cli) options() []kong.Option {
	return append([]kong.Option{
		kong.Name("smg"),
		kong.Writers(c.stdout, c.stderr),
		kong.Exit(func(int) { c.helped = true }), // kong exits after help alone; there is more to do, so it must not
		kong.Help(c.printHelp),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}, mappers()...)
}

// withCommand adds the command that is meant when none is given. A command counts as the first word alone: flags before it
// would have to be launch's, and it would be a second command.
func (c *cli) withCommand(args []string) []string {
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		return args // a command, or a word that kong will not know
	}
	c.bare = true
	return slices.Concat([]string{"launch"}, args)
}

// launchCmd starts the gateway.
type launchCmd struct{ settings }

// Run starts the gateway and returns when it has stopped.
func (l *launchCmd) Run(c *cli) error {
	if err := l.valid(); err != nil {
		return err
	}
	c.begin(&l.Config)
	return run(context.Background(), &l.Config)
}

// begin does what comes before the gateway runs.
func (c *cli) begin(cfg *server.Config) {
	if cfg.WorkerThreads != nil {
		runtime.GOMAXPROCS(*cfg.WorkerThreads)
	}
	if c.wantsBanner(cfg) {
		fmt.Fprint(c.stdout, server.Banner(cfg))
	}
}

// wantsBanner keeps the banner out of what a program reads: log lines in a pipe or a file stay parseable.
func (c *cli) wantsBanner(cfg *server.Config) bool {
	out, ok := c.stdout.(*os.File)
	return ok && !cfg.LogJSON && isatty.IsTerminal(out.Fd())
}

// pipelinesCmd prints what the gateway would do with a request.
type pipelinesCmd struct {
	settings
	Route   string `name:"route" placeholder:"ROUTE" help:"Print this route alone: method and path template, such as 'POST /v1/chat/completions'."`
	JSON    bool   `name:"json" xor:"format" help:"Print JSON."`
	Mermaid bool   `name:"mermaid" xor:"format" help:"Print a Mermaid graph."`
}

// Run prints the pipelines that this configuration assembles.
func (p *pipelinesCmd) Run(c *cli) error {
	if err := p.valid(); err != nil {
		return err
	}
	format := "text"
	switch {
	case p.JSON:
		format = "json"
	case p.Mermaid:
		format = "mermaid"
	}
	return pipelines(&p.Config, p.Route, format, c.stdout)
}
