package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/server"
)

// demoCmd is the gateway in front of engines that it brings itself.
type demoCmd struct {
	Port int `default:"30000" help:"Port of the gateway on 127.0.0.1."`
}

const (
	demoEngines = 3
	demoHost    = "127.0.0.1"
)

// Run serves until a signal comes. Everything listens on loopback; the system chooses the ports of engines and metrics.
func (d *demoCmd) Run(c *cli) error {
	cfg := d.config()
	if violations := cfg.Validate(); len(violations) > 0 {
		return invalid(violations)
	}
	var engines demoFleet
	defer engines.close()
	for i := range demoEngines {
		url, err := engines.start(fmt.Sprintf("engine-%d", i+1))
		if err != nil {
			return err
		}
		cfg.WorkerURLs = append(cfg.WorkerURLs, url)
	}
	for attempt := 1; ; attempt++ {
		err := d.serve(c.stdout, cfg)
		if attempt < 3 && inUse(err, cfg.MetricsAddress()) {
			continue // somebody has taken the port between freePort and the gateway; with another one it works
		}
		if inUse(err, cfg.Address()) {
			return fmt.Errorf("port %d of %s is in use: choose another one with --port", d.Port, demoHost)
		}
		return err
	}
}

func (d *demoCmd) config() *server.Config {
	cfg := server.Default()
	cfg.Host, cfg.Port, cfg.PrometheusHost, cfg.LogLevel = demoHost, d.Port, demoHost, "error"
	cfg.StartupCheckInterval, cfg.ShutdownGracePeriod = 1, 2
	cfg.Policy = "round_robin" // the default would keep the one question that is asked here on one engine
	return cfg
}

// serve runs the gateway once, and says what to do with it as soon as all engines are its workers.
func (d *demoCmd) serve(stdout io.Writer, cfg *server.Config) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	cfg.PrometheusPort = port
	ctx, stop := context.WithCancel(context.Background())
	told := make(chan struct{})
	go func() {
		defer close(told)
		if allRegistered(ctx, "http://"+cfg.Address(), cfg.WorkerURLs) {
			fmt.Fprint(stdout, demoText(cfg))
		}
	}()
	err = run(context.Background(), cfg)
	stop()
	<-told
	return err
}

// demoText is what the user reads. The curl lines are run by a test.
func demoText(cfg *server.Config) string {
	gateway, metrics := "http://"+cfg.Address(), "http://"+cfg.MetricsAddress()
	return fmt.Sprintf(`smg demo is ready: a gateway on %[1]s in front of %[2]d mock engines
  %[3]s

Ask it something, a few times:

  curl -i -N %[1]s/v1/chat/completions -H 'Content-Type: application/json' \
    -d '{"model":"demo","stream":true,"messages":[{"role":"user","content":"Hello"}]}'

The answer comes word by word. Its header x-smg-routed-worker-id names the engine that made it: the next request goes to the next
engine. Clients of the OpenAI API take %[1]s/v1 as their base URL, the model is demo and any key will do. Then look at

  curl %[1]s/workers    # the engines, whether they are healthy, and how many requests each has in flight
  curl %[4]s/metrics    # what was counted: see smg_worker_requests_total, one line for each engine

Ctrl-C ends it.
`, gateway, len(cfg.WorkerURLs), strings.Join(cfg.WorkerURLs, "\n  "), metrics)
}

// demoFleet are the mock engines.
type demoFleet []demoEngine

type demoEngine struct {
	*engine.Engine
	listener net.Listener
}

// start serves one more engine, on a port of the system's choice, until close. Its answers take about a second.
func (f *demoFleet) start(name string) (url string, err error) {
	listener, err := net.Listen("tcp", demoHost+":0")
	if err != nil {
		return "", err
	}
	e := engine.New(engine.Config{Name: name, Models: []string{"demo"}, TTFT: 100 * time.Millisecond, ITL: 50 * time.Millisecond})
	*f = append(*f, demoEngine{e, listener})
	go func() { _ = e.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

func (f *demoFleet) close() {
	for _, e := range *f {
		_ = e.listener.Close() // also one that is not served yet
		e.Close()
	}
}

// freePort is a port that nobody used a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", demoHost+":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// inUse tells whether err says that somebody else listens on that address.
func inUse(err error, address string) bool {
	bind, ok := errors.AsType[*net.OpError](err)
	return ok && errors.Is(bind, syscall.EADDRINUSE) && bind.Addr != nil && bind.Addr.String() == address
}
