package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"github.com/smg-go/smg/cmd/bench/replay"
	"github.com/smg-go/smg/stages/policy"
)

// replayCmd simulates policies on workloads in virtual time.
type replayCmd struct {
	Workload   []string      `help:"Workloads: conv, synth, shared, sessions, bursts, hot." default:"conv" placeholder:"NAME,..."`
	Trace      string        `help:"Trace of one's own instead: a JSON object a line with timestamp (ms), input_length, output_length (tokens) and hash_ids (one for each 512 tokens); .gz too." type:"existingfile" placeholder:"FILE"`
	All        bool          `help:"All workloads and all policies, and what least_work is held to."`
	Policy     []string      `help:"Policies. Default: all." placeholder:"NAME,..."`
	Engines    []int         `help:"Sizes of the fleet." default:"8"`
	Poll       time.Duration `help:"Time between load reports; 0 is none." default:"10s"`
	Seed       uint64        `help:"The first seed." default:"1"`
	Seeds      int           `help:"How many seeds." default:"1"`
	Load       []float64     `help:"Loads, as shares of the capacity of least_work." default:"0.3,0.5,0.7,0.9,1,1.1"`
	SlowEngine bool          `help:"The first engine has half the speed."`
	Gateways   int           `help:"Gateways, each with a view of its own." default:"1"`
	TokenError float64       `help:"Share by which policies misjudge the tokens of a prompt, such as 0.3." default:"0"`
	Length     float64       `help:"Length of a run as a multiple of the usual one." default:"1"`
	JSON       bool          `name:"json" help:"Print the rows as JSON."`
	Plot       string        `help:"Folder to write plots of TTFT over load to, as SVG." type:"path" placeholder:"DIR"`
}

// check reports the first flag that cannot be run.
func (c *replayCmd) check() error {
	if err := known("--workload", c.Workload, replay.Workloads()); err != nil {
		return err
	}
	if err := known("--policy", c.Policy, policies()); err != nil {
		return err
	}
	if err := positive("--engines", c.Engines); err != nil {
		return err
	}
	if len(c.Load) == 0 || slices.Min(c.Load) <= 0 || slices.Max(c.Load) > 10 {
		return fmt.Errorf("--load takes shares above 0 and up to 10, not %v", c.Load)
	}
	switch {
	case c.Seeds < 1 || c.Gateways < 1:
		return fmt.Errorf("--seeds and --gateways must be at least 1")
	case c.Poll < 0:
		return fmt.Errorf("--poll must not be negative")
	case !(c.TokenError >= 0 && c.TokenError < 1):
		return fmt.Errorf("--token-error must be 0 to below 1, not %g", c.TokenError)
	case !(c.Length > 0 && c.Length <= 100):
		return fmt.Errorf("--length must be above 0 and at most 100, not %g", c.Length)
	}
	return nil
}

func known(flag string, names, all []string) error {
	for _, name := range names {
		if !slices.Contains(all, name) {
			return fmt.Errorf("%s takes %v, not %q", flag, all, name)
		}
	}
	return nil
}

// policies are all that there are, and what they are compared with.
func policies() []string { return append(policy.Names(), replay.WholeCacheAware) }

func (c *replayCmd) config(progress io.Writer) replay.Config {
	if c.All {
		c.Workload, c.Policy = replay.Workloads(), policies()
	}
	seeds := make([]uint64, c.Seeds)
	for i := range seeds {
		seeds[i] = c.Seed + uint64(i)
	}
	return replay.Config{
		Workloads: c.Workload, Trace: c.Trace, Policies: c.Policy, Engines: c.Engines, Seeds: seeds, Loads: c.Load, Poll: c.Poll,
		SlowEngine: c.SlowEngine, Gateways: c.Gateways, TokenError: c.TokenError, Length: c.Length, Settings: replay.Defaults(),
		Progress: progress,
	}
}

// Run is called by kong.
func (c *replayCmd) Run(ctx context.Context, k *kong.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	config := c.config(k.Stderr)
	rows, err := replay.Run(ctx, config)
	if err != nil {
		return err
	}
	if c.Plot != "" {
		if err := replay.WritePlots(c.Plot, rows); err != nil {
			return err
		}
	}
	if err := c.print(k.Stdout, rows); err != nil || !c.All {
		return err
	}
	bars, err := replay.Bars(ctx, config, rows)
	if err != nil {
		return err
	}
	beside := k.Stdout
	if c.JSON {
		beside = k.Stderr // stdout is for the rows alone
	}
	return replay.PrintBars(beside, bars)
}

func (c *replayCmd) print(to io.Writer, rows []replay.Row) error {
	if !c.JSON {
		return replay.Print(to, rows)
	}
	out := json.NewEncoder(to)
	out.SetIndent("", "  ")
	return out.Encode(rows)
}
