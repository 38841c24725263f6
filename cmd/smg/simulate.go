package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/smg-go/smg/cmd/bench/replay"
	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/stages/policy"
)

// simulateCmd tells which policy would suit the traffic of a recording.
type simulateCmd struct {
	File    string    `arg:"" help:"What smg launch --record has written, or another trace in that format; .gz too. - is standard input."`
	Engines int       `name:"engines" required:"" placeholder:"N" help:"Engines of the fleet."`
	Model   string    `name:"model" placeholder:"NAME" help:"Simulate the requests for this model. Needed if the recording has several."`
	Policy  []string  `name:"policy" type:"multi" placeholder:"NAME ..." help:"Policies to compare. Unset: all."`
	Load    []float64 `name:"load" type:"numbers" default:"0.5,1,1.5,2" placeholder:"FACTOR ..." help:"Multiples of the recorded rate to measure at, above 0 and at most 100."`

	PrefillTPS   int           `name:"prefill-tps" default:"16000" help:"Prompt tokens a second that an engine computes."`
	ITL          time.Duration `name:"itl" default:"20ms" help:"Time between the tokens of a request that is alone."`
	Slowdown     time.Duration `name:"batch-slowdown" default:"250us" help:"Time that each further request adds to that."`
	MaxRunning   int           `name:"max-running" default:"128" help:"Requests that an engine runs at once."`
	KVTokens     int           `name:"kv-tokens" default:"400000" help:"Tokens that an engine's KV cache holds."`
	PrefillChunk int           `name:"prefill-chunk" default:"1024" help:"Prompt tokens of one step."`

	Poll    time.Duration `name:"poll" default:"10s" help:"Time between load reports, --load-monitor-interval of the gateway; 0s is none."`
	SLOTTFT time.Duration `name:"slo-ttft" default:"2s" help:"The fleet carries a rate if 90 % of first tokens come within this time."`
	Seed    int           `name:"seed" default:"1" help:"Seed of random choices, at least 0: the same one gives the same figures."`

	JSON bool   `name:"json" help:"Print the figures as JSON."`
	Plot string `name:"plot" placeholder:"DIR" help:"Folder to write a plot of TTFT over load to, as SVG; made if it is missing."`
}

// Run simulates, and prints what came out.
func (s *simulateCmd) Run(c *cli) error {
	if err := s.check(); err != nil {
		return err
	}
	trace, err := s.read(c.stdin)
	if err != nil {
		return err
	}
	w, err := s.workload(trace)
	if err != nil {
		return err
	}
	progress, done := progressOn(c.stderr)
	rows, err := replay.Run(context.Background(), replay.Config{
		Given: w, AsRecorded: true, Policies: s.Policy, Engines: []int{s.Engines}, Seeds: []uint64{uint64(s.Seed)}, Loads: s.Load,
		Poll: s.Poll, Settings: replay.Defaults(), Progress: progress,
	})
	done()
	if err != nil {
		return err
	}
	if s.Plot != "" {
		if err := replay.WritePlots(s.Plot, rows); err != nil {
			return fmt.Errorf("cannot write the plots: %w", err)
		}
	}
	if s.JSON {
		hideUnmeasured(rows)
		out := json.NewEncoder(c.stdout)
		out.SetIndent("", "  ")
		return out.Encode(rows)
	}
	return s.report(c.stdout, trace, rows)
}

// hideUnmeasured takes out capacities that were not found.
func hideUnmeasured(rows []replay.Row) {
	for i := range rows {
		if !measurable(rows[i]) {
			rows[i].Capacity, rows[i].VsOracle = 0, 0
		}
	}
}

// check returns everything that is wrong with the flags.
func (s *simulateCmd) check() error {
	var found invalid
	add := func(flag string, value any, reason string) {
		found = append(found, server.Violation{Flag: flag, Value: fmt.Sprint(value), Reason: reason})
	}
	for _, n := range []struct {
		flag        string
		value, most int
	}{
		{"--engines", s.Engines, 1024},
		{"--prefill-tps", s.PrefillTPS, 1e9},
		{"--max-running", s.MaxRunning, 1e6},
		{"--kv-tokens", s.KVTokens, 1e9},
		{"--prefill-chunk", s.PrefillChunk, 1e9},
	} {
		if n.value < 1 || n.value > n.most {
			add(n.flag, n.value, fmt.Sprintf("must be between 1 and %d", n.most))
		}
	}
	for _, name := range s.Policy {
		if !slices.Contains(policy.Names(), name) {
			add("--policy", name, "must be one of "+strings.Join(policy.Names(), ", "))
		}
	}
	for _, load := range s.Load {
		if !(load > 0 && load <= 100) {
			add("--load", load, "must be above 0 and at most 100")
		}
	}
	if len(s.Load) == 0 {
		add("--load", "", "must have a value")
	}
	for _, d := range []struct {
		flag         string
		value, least time.Duration
	}{
		{"--itl", s.ITL, time.Microsecond}, {"--batch-slowdown", s.Slowdown, 0}, {"--poll", s.Poll, 0}, {"--slo-ttft", s.SLOTTFT, time.Millisecond},
	} {
		if d.value < d.least || d.value > 24*time.Hour {
			add(d.flag, d.value, fmt.Sprintf("must be between %s and 24h", d.least))
		}
	}
	if s.Seed < 0 {
		add("--seed", s.Seed, "must be at least 0")
	}
	if len(found) > 0 {
		return found
	}
	return nil
}

// read reads the recording, and picks the model.
func (s *simulateCmd) read(stdin io.Reader) (*replay.Trace, error) {
	in := stdin
	if s.File != "-" {
		f, err := os.Open(s.File)
		if err != nil {
			return nil, fmt.Errorf("cannot read the recording: %w", err)
		}
		defer f.Close()
		in = f
	}
	if strings.HasSuffix(s.File, ".gz") {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("cannot read the recording: %s: %w", s.File, err)
		}
		in = z
	}
	trace, err := replay.ReadTrace(in)
	if err != nil {
		return nil, fmt.Errorf("cannot read the recording: %s: %w", s.File, err)
	}
	return s.ofModel(trace)
}

func (s *simulateCmd) ofModel(trace *replay.Trace) (*replay.Trace, error) {
	names, requests := trace.Models()
	if s.Model == "" && len(names) == 1 {
		return trace, nil
	}
	if s.Model != "" && requests[s.Model] > 0 {
		return trace.Only(s.Model), nil
	}
	var models []string
	for _, name := range names {
		models = append(models, fmt.Sprintf("%s (%d requests)", orNone(name, "none named"), requests[name]))
	}
	reason := "must name a model of the recording, which has "
	if s.Model == "" {
		reason = "must be given: the recording has several models: "
	}
	return nil, invalid{{Flag: "--model", Value: s.Model, Reason: reason + strings.Join(models, ", ")}}
}

// workload is the recording's traffic, for engines as the flags say.
func (s *simulateCmd) workload(trace *replay.Trace) (*replay.Workload, error) {
	w := trace.Workload()
	if w.Rate == 0 {
		return nil, fmt.Errorf("%s has no two requests at different times, so there is no rate to simulate", s.File)
	}
	w.Limit, w.KVTokens = s.SLOTTFT, max(s.KVTokens, w.Page)
	w.Guess = w.Rate / float64(s.Engines)
	w.Engine = engine.ModelConfig{
		PrefillTPS: s.PrefillTPS, ITL: s.ITL, BatchSlowdown: s.Slowdown,
		MaxRunning: s.MaxRunning, PrefillChunk: s.PrefillChunk,
	}
	if s.Slowdown == 0 {
		w.Engine.BatchSlowdown = -1 // 0 stands for the usual one
	}
	return w, nil
}

// progressOn is one line of a terminal that says what is being done, until done is called; nil for an output that is no terminal.
func progressOn(stderr io.Writer) (progress io.Writer, done func()) {
	file, ok := stderr.(*os.File)
	if !ok || !isatty.IsTerminal(file.Fd()) {
		return nil, func() {}
	}
	return lineOf{file}, func() { fmt.Fprint(file, "\r\x1b[K") }
}

// lineOf writes every line over the one before.
type lineOf struct{ terminal *os.File }

func (l lineOf) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(l.terminal, "\r\x1b[K%s", strings.TrimRight(string(p), "\n"))
	return len(p), err
}
