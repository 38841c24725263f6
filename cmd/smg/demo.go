package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/server"
)

// demoCmd is the gateway in front of engines that it brings itself.
type demoCmd struct {
	Port int `default:"30000" help:"Port of the gateway on 127.0.0.1."`
}

const demoEngines = 3

// Run serves until a signal comes. Everything listens on loopback; the system chooses the ports of engines and metrics.
func (d *demoCmd) Run(c *cli) error {
	cfg := server.Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.LogLevel = "127.0.0.1", d.Port, "127.0.0.1", "warn"
	cfg.StartupCheckInterval, cfg.ShutdownGracePeriod = 1, 2
	if violations := cfg.Validate(); len(violations) > 0 {
		return invalid(violations)
	}
	for i := range demoEngines {
		e := engine.New(engine.Config{Name: fmt.Sprintf("engine-%d", i+1), Models: []string{"demo"}, TTFT: 50 * time.Millisecond, ITL: 30 * time.Millisecond})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer e.Close()
		go func() { _ = e.Serve(listener) }() // ends with Close
		cfg.WorkerURLs = append(cfg.WorkerURLs, "http://"+listener.Addr().String())
	}
	metrics, err := freePort()
	if err != nil {
		return err
	}
	cfg.PrometheusPort = metrics
	fmt.Fprintf(c.stdout, demoText, cfg.Address(), demoEngines, cfg.WorkerURLs, cfg.Address(), cfg.Address(), cfg.MetricsAddress())
	return run(context.Background(), cfg)
}

const demoText = `smg demo: the gateway on http://%s in front of %d mock engines %v

  curl -N http://%s/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model":"demo","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

Send it a few times and look at
  http://%s/workers   who the workers are, and what each has in flight
  http://%s/metrics   what was counted
Ctrl-C ends it.
`

// freePort is a port that nobody used a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
