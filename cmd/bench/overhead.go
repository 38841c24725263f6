package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// overheadCmd measures whole answers.
type overheadCmd struct {
	settings    `embed:""`
	Sizes       []int  `help:"Sizes of the request body, in KiB." default:"1,32,256"`
	Connections []int  `help:"Numbers of connections; each sends its next request when it has read the answer." default:"1,32,512"`
	Policy      string `help:"How the gateways among the peers choose an engine; what all have is random, round_robin, power_of_two and cache_aware." default:"round_robin" placeholder:"NAME"`
	Engines     int    `help:"How many engines the gateways see; all are one process." default:"1"`
}

// Run measures, and prints the report.
func (c *overheadCmd) Run(ctx context.Context) error {
	if c.Short {
		c.shorten()
		c.Sizes, c.Connections = []int{1}, []int{32}
	}
	if err := errors.Join(c.check(), positive("--sizes", c.Sizes), positive("--connections", c.Connections), positive("--engines", []int{c.Engines})); err != nil {
		return err
	}
	r, err := c.measure(ctx)
	if err != nil {
		return err
	}
	return errors.Join(publish(r, c.JSON), r.err())
}

func (c *overheadCmd) measure(ctx context.Context) (*report, error) {
	s, err := newSession(c.settings, os.Stderr, probeChat)
	if err != nil {
		return nil, err
	}
	defer s.close()
	engine := peer{name: "engine", program: "nginx", config: nginxEngine, args: peers[0].args}
	path, err := engine.find("")
	if err != nil {
		return nil, fmt.Errorf("nginx, which is the engine of this benchmark: %w", err)
	}
	p, err := launch(ctx, engine, path, fleet{hosts: c.Engines}, s.dir, probeChat)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	s.fleet = fleet{engine: p.addr, hosts: c.Engines, policy: c.Policy}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	r := newReport("overhead", "request", c.settings)
	if c.Policy != usualPolicy || c.Engines > 1 {
		r.Policy, r.Engines = c.Policy, c.Engines
	}
	if err := s.rounds(ctx, c.loads(), r); err != nil {
		return nil, err
	}
	r.finish(s.targets)
	return r, nil
}

func (c *overheadCmd) loads() []measurement {
	var all []measurement
	for _, kib := range c.Sizes {
		for _, n := range c.Connections {
			all = append(all, measurement{
				load: loadName{KiB: kib, Connections: n},
				run: func(ctx context.Context, addr string, before, after func()) (measured, error) {
					l := load{addr: addr, connections: n, bytes: kib << 10, answer: len(chatAnswer), warmup: c.Warmup, duration: c.Duration}
					return l.run(ctx, before, after)
				},
			})
		}
	}
	return all
}

// probeChat asks for one answer.
func probeChat(ctx context.Context, addr string) error {
	conn, err := dial(ctx, addr, time.Now().Add(grace))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(chatRequest(addr, 0, 0, ""))); err != nil {
		return err
	}
	res, err := newResponseReader(conn).next(nil)
	if err != nil {
		return unexpected(err)
	}
	if res.status != 200 || res.bytes != int64(len(chatAnswer)) {
		return fmt.Errorf("status %d with %d bytes, expected 200 with %d", res.status, res.bytes, len(chatAnswer))
	}
	return nil
}
