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
	Cluster  string        `help:"Binary of a Kubernetes API server, for the faults of pods; .ci/testcluster builds it and prints where it is." env:"SMG_TEST_CLUSTER" type:"existingfile" placeholder:"PATH"`
	Duration time.Duration `help:"How long there is load with each fault." default:"6s"`
	Clients  int           `help:"Clients that send one request after the other." default:"16"`
	Together int           `help:"Faults that are run at once, each with a gateway of its own." default:"1"`
	JSON     string        `name:"json" help:"Also write the report as JSON; - is standard output, the table then goes to standard error." placeholder:"FILE|-"`
	Short    bool          `help:"A run of less than a minute."`

	plane *cluster // while there are faults of pods to run
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
	return errors.Join(publish(r, c.JSON), r.err())
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
	binary, err := smgBinary(ctx, c.SMG, dir, progress)
	if err != nil {
		return nil, err
	}
	if c.Cluster != "" && slices.ContainsFunc(c.wanted(), func(f fault) bool { return f.pods }) {
		if c.plane, err = openCluster(c.Cluster); err != nil {
			return nil, err
		}
		defer c.plane.close()
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
		if f.pods && c.plane == nil {
			rows[i] = &faultRow{Fault: f.name, NotRun: errNoCluster.Error()}
			continue
		}
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

// turn runs one fault, with a gateway and engines of its own.
func (c *faultsCmd) turn(ctx context.Context, f fault, binary, dir string) (*faultRow, error) {
	s, err := c.sceneOf(ctx, f, binary, dir)
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
	if err := c.under(ctx, load, s); err != nil {
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

func (c *faultsCmd) sceneOf(ctx context.Context, f fault, binary, dir string) (*scene, error) {
	if f.pods {
		return newPodScene(ctx, binary, dir, c.plane, 3)
	}
	return newScene(ctx, binary, dir)
}

// under has the fault happen under load, and returns when both are over.
func (c *faultsCmd) under(ctx context.Context, load *crowd, s *scene) error {
	until := time.Now().Add(c.Duration)
	happening, over := context.WithDeadline(ctx, until)
	defer over()
	loading, enough := context.WithCancel(ctx)
	defer enough()
	acted := make(chan error, 1)
	go func() {
		acted <- load.fault.act(happening, s)
		if load.fault.pods {
			enough()
		}
	}()
	switch {
	case load.fault.ends:
		until = until.Add(startLimit) // until nobody listens any more
	case load.fault.pods:
		until = until.Add(podsLimit)
	}
	load.run(loading, until)
	over()
	return <-acted
}
