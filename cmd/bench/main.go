package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli is the command line.
type cli struct {
	Overhead  overheadCmd  `cmd:"" help:"Requests of several sizes over several numbers of connections."`
	Stream    streamCmd    `cmd:"" help:"Many event streams of 100 events a second each."`
	Faults    faultsCmd    `cmd:"" help:"Drive smg under load while engines, clients and smg itself fail."`
	Discovery discoveryCmd `cmd:"" help:"How soon smg follows the pods of a cluster, and what that costs."`
	Replay    replayCmd    `cmd:"" help:"Simulate policies on a fleet of engines in virtual time."`
	Engine    engineCmd    `cmd:"" hidden:"" help:"The streaming engine; stream starts it for itself."`
}

func main() {
	var c cli
	k := kong.Parse(&c, kong.Name("bench"), kong.UsageOnError(),
		kong.Description("Side-by-side benchmarks of smg against other proxies and gateways, and a simulator of its policies."))
	k.FatalIfErrorf(run(k))
}

// run is apart from main so that the deferred calls, which end the child processes, are over before the program exits.
func run(k *kong.Context) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	return k.Run()
}
