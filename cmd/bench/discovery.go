package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// discoveryCmd measures how smg follows the pods of a cluster: how soon, for how much, and what is lost.
type discoveryCmd struct {
	Only    []string      `help:"Parts to run, of: times, large, idle, rolling. Default: all." enum:"times,large,idle,rolling" placeholder:"PART,..."`
	Cluster string        `help:"Binary of a Kubernetes API server; .ci/testcluster builds it and prints where it is." env:"SMG_TEST_CLUSTER" type:"existingfile" placeholder:"PATH"`
	SMG     string        `name:"smg" help:"The smg binary to measure. Default: built from cmd/smg." type:"existingfile" placeholder:"PATH"`
	Samples int           `help:"Pods that come and go one by one, for the times." default:"50"`
	Pods    int           `help:"Pods of the large cluster." default:"2000"`
	Changes int           `help:"Status changes a second in it." default:"10"`
	Steady  time.Duration `help:"How long the large cluster is watched." default:"30s"`
	Rolled  int           `help:"Pods that are replaced under load." default:"50"`
	Clients int           `help:"Clients that send one request after the other meanwhile." default:"16"`
	JSON    string        `name:"json" help:"Also write the report as JSON; - is standard output, the table then goes to standard error." placeholder:"FILE|-"`
	Short   bool          `help:"A run of less than a minute: fewer pods."`
}

// Run measures, and prints the table. It fails if requests were lost; a figure that is short of its bar is no failure.
func (c *discoveryCmd) Run(ctx context.Context) error {
	if c.Short {
		c.Samples, c.Pods, c.Steady, c.Rolled = 5, 200, 5*time.Second, 10
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

func (c *discoveryCmd) check() error {
	if c.Cluster == "" {
		return errNoCluster
	}
	if c.Steady < time.Second {
		return fmt.Errorf("--steady must be at least 1s, the resolution of CPU times is 10ms; it is %s", c.Steady)
	}
	return errors.Join(positive("--samples", []int{c.Samples}), positive("--pods", []int{c.Pods}), positive("--changes", []int{c.Changes}),
		positive("--rolled", []int{c.Rolled}), positive("--clients", []int{c.Clients}))
}

// discoveryRun is one run of the benchmark.
type discoveryRun struct {
	*discoveryCmd
	cluster     *cluster
	binary, dir string
	report      *discoveryReport
}

func (c *discoveryCmd) measure(ctx context.Context, progress io.Writer) (*discoveryReport, error) {
	dir, err := os.MkdirTemp("", "smg-discovery-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	run := &discoveryRun{discoveryCmd: c, dir: dir, report: newDiscoveryReport()}
	if run.binary, err = smgBinary(ctx, c.SMG, dir, progress); err != nil {
		return nil, err
	}
	fmt.Fprintln(progress, "starting a cluster")
	if run.cluster, err = openCluster(c.Cluster); err != nil {
		return nil, err
	}
	defer run.cluster.close()
	return run.report, errors.Join(run.parts(ctx, progress), ctx.Err())
}

// parts runs what was asked for, each in a folder of its own.
func (r *discoveryRun) parts(ctx context.Context, progress io.Writer) error {
	for _, part := range []struct {
		name, says string
		run        func(context.Context, string) error
	}{
		{"times", fmt.Sprintf("%d pods come and go", r.Samples), r.comeAndGo},
		{"large", fmt.Sprintf("%d pods at start, and %d changes a second for %s", r.Pods, r.Changes, r.Steady), r.large},
		{"idle", "smg without discovery", r.without},
		{"rolling", fmt.Sprintf("%d pods are replaced under load", r.Rolled), r.rolling},
	} {
		if len(r.Only) > 0 && !slices.Contains(r.Only, part.name) {
			continue
		}
		fmt.Fprintln(progress, part.says)
		own := filepath.Join(r.dir, part.name)
		if err := os.Mkdir(own, 0o755); err != nil {
			return err
		}
		if err := part.run(ctx, own); err != nil {
			return fmt.Errorf("%s: %w", part.says, err)
		}
	}
	return nil
}

// smgBinary is the binary to measure: one that is given, or built now into dir.
func smgBinary(ctx context.Context, given, dir string, progress io.Writer) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	fmt.Fprintln(progress, "building smg")
	return buildSMG(ctx, dir)
}

// gateway starts smg for the pods of a namespace of its own, which has none yet. It neither probes nor polls those that it has registered.
func (r *discoveryRun) gateway(ctx context.Context, dir string, more ...string) (*scene, error) {
	s, err := r.podless()
	if err != nil {
		return nil, err
	}
	if err := r.startFor(ctx, s, dir, more...); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// podless is a scene with a namespace, for pods that are there before smg is.
func (r *discoveryRun) podless() (s *scene, err error) {
	s = emptyScene()
	s.pods, err = newPods(r.cluster, s)
	return s, err
}

func (r *discoveryRun) startFor(ctx context.Context, s *scene, dir string, more ...string) error {
	flags, err := s.pods.flags()
	if err != nil {
		return err
	}
	return s.startGateway(ctx, r.binary, dir, append(append(flags, "--disable-health-check", "--disable-load-monitoring", "--disable-retries"), more...)...)
}
