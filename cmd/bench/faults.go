package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// faultsCmd drives smg under load while something goes wrong, one fault after the other, and looks at what became of each request
// and of what smg keeps.
type faultsCmd struct {
	Only     []string      `help:"Faults to run, by name. Default: all." placeholder:"NAME,..."`
	SMG      string        `name:"smg" help:"The smg binary to drive. Default: built from cmd/smg." type:"existingfile" placeholder:"PATH"`
	Duration time.Duration `help:"How long there is load with each fault." default:"6s"`
	Clients  int           `help:"Clients that send one request after the other." default:"16"`
	Together int           `help:"Faults that are run at once, each with a gateway of its own." default:"1"`
	JSON     string        `name:"json" help:"Also write the report as JSON; - is standard output, the table then goes to standard error." placeholder:"FILE|-"`
	Short    bool          `help:"A run of less than a minute."`
}

// Run drives smg, and prints the table. It fails if anything was lost, duplicated or left over.
func (c *faultsCmd) Run(ctx context.Context) error {
	if c.Short {
		c.Duration, c.Together = time.Second, 4
	}
	if err := c.check(); err != nil {
		return err
	}
	r, err := c.measure(ctx, os.Stderr)
	if err != nil {
		return err
	}
	return errors.Join(r.publish(c.JSON), r.err())
}

func (c *faultsCmd) check() error {
	if c.Duration < 100*time.Millisecond {
		return fmt.Errorf("--duration must be at least 100ms; it is %s", c.Duration)
	}
	if err := errors.Join(positive("--clients", []int{c.Clients}), positive("--together", []int{c.Together})); err != nil {
		return err
	}
	for _, name := range c.Only {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.name == name }) {
			return fmt.Errorf("--only names %q, which is no fault; there are %s", name, strings.Join(faultNames(), ", "))
		}
	}
	return nil
}

func (c *faultsCmd) measure(ctx context.Context, progress io.Writer) (*faultReport, error) {
	dir, err := os.MkdirTemp("", "smg-faults-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary, err := c.binary(ctx, dir, progress)
	if err != nil {
		return nil, err
	}
	r := newFaultReport(c)
	r.Faults, err = c.turns(ctx, c.wanted(), binary, dir, progress)
	return r, err
}

func (c *faultsCmd) wanted() []fault {
	if len(c.Only) == 0 {
		return faults
	}
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool { return !slices.Contains(c.Only, f.name) })
}

// turns runs faults, some at once. Most of the time they wait.
func (c *faultsCmd) turns(ctx context.Context, wanted []fault, binary, dir string, progress io.Writer) ([]*faultRow, error) {
	rows, errs := make([]*faultRow, len(wanted)), make([]error, len(wanted))
	places := make(chan struct{}, c.Together)
	var all sync.WaitGroup
	for i, f := range wanted {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			own := filepath.Join(dir, fmt.Sprint(i))
			if errs[i] = os.Mkdir(own, 0o755); errs[i] != nil {
				return
			}
			row, err := c.turn(ctx, f, binary, own)
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", f.name, err)
				return
			}
			rows[i] = row
			fmt.Fprintf(progress, "%s: %d sent, %d completed, %d refused, %d lost\n", f.name, row.Sent, row.Completed, row.Refused, row.Lost)
		})
	}
	all.Wait()
	return rows, errors.Join(errs...)
}

func (c *faultsCmd) binary(ctx context.Context, dir string, progress io.Writer) (string, error) {
	if c.SMG != "" {
		return filepath.Abs(c.SMG)
	}
	fmt.Fprintln(progress, "building smg")
	return buildSMG(ctx, dir)
}

// turn runs one fault, with a gateway and engines of its own.
func (c *faultsCmd) turn(ctx context.Context, f fault, binary, dir string) (*faultRow, error) {
	s, err := newScene(ctx, binary, dir)
	if err != nil {
		return nil, err
	}
	defer s.close()
	warmed := s.crowd(f, c.Clients, 0)
	warmed.run(ctx, time.Now().Add(300*time.Millisecond))
	if lost := warmed.tally(); lost.Lost > 0 {
		return nil, fmt.Errorf("requests are lost before anything goes wrong: %s", lost.Example)
	}
	before, err := s.baseline(ctx)
	if err != nil {
		return nil, err
	}
	load := s.crowd(f, max(c.Clients, f.clients), f.vanish)
	until := time.Now().Add(c.Duration)
	happening, over := context.WithDeadline(ctx, until)
	defer over()
	acted := make(chan error, 1)
	go func() { acted <- f.act(happening, s) }()
	if f.ends {
		until = until.Add(startLimit) // until nobody listens any more
	}
	load.run(ctx, until)
	over()
	if err := <-acted; err != nil {
		return nil, err
	}
	row := load.tally()
	row.Duplicated, row.Double = s.witness.duplicated()
	if !f.ends {
		after, err := s.settled(ctx, before)
		if err != nil {
			return nil, err
		}
		row.leave(before, after)
	}
	return row, ctx.Err()
}
