package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// streamCmd measures event streams.
type streamCmd struct {
	settings `embed:""`
	Streams  []int `help:"Numbers of streams that are open at once." default:"256,1000"`
}

// Run measures, and prints the report.
func (c *streamCmd) Run(ctx context.Context) error {
	if c.Short {
		c.shorten()
		c.Streams = []int{256}
	}
	if err := errors.Join(c.check(), positive("--streams", c.Streams)); err != nil {
		return err
	}
	r, err := c.measure(ctx)
	if err != nil {
		return err
	}
	return errors.Join(publish(r, c.JSON), r.err())
}

func (c *streamCmd) measure(ctx context.Context) (*report, error) {
	s, err := newSession(c.settings, os.Stderr, probeStream)
	if err != nil {
		return nil, err
	}
	defer s.close()
	p, err := startEngine(ctx, s.dir)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	defer p.stop()
	s.engine = p.addr
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	r := newReport("stream", "event", c.settings)
	if err := s.rounds(ctx, c.loads(), r); err != nil {
		return nil, err
	}
	r.finish(s.targets)
	return r, nil
}

func (c *streamCmd) loads() []measurement {
	var all []measurement
	for _, n := range c.Streams {
		all = append(all, measurement{
			load: loadName{Streams: n},
			run: func(ctx context.Context, addr string, before, after func()) (measured, error) {
				s := &streams{addr: addr, count: n, warmup: c.Warmup, duration: c.Duration}
				return s.run(ctx, before, after)
			},
		})
	}
	return all
}

// startEngine runs this program again as the engine: in a process of its own it shares no scheduler with the load.
func startEngine(ctx context.Context, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := start(self, []string{"engine"}, dir, "")
	if err != nil {
		return nil, err
	}
	err = p.await(ctx, func(ctx context.Context, _ string) error {
		p.addr, _, _ = strings.Cut(p.output(), "\n") // fails to be dialled until the engine has printed it
		return probeStream(ctx, p.addr)
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// probeStream asks for one event.
func probeStream(ctx context.Context, addr string) error {
	return readStream(ctx, addr, 0, 1, time.Now().Add(grace), func(time.Duration) {})
}
