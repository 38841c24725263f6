package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/smg-go/smg/server"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "picker: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends or a signal comes.
func run(ctx context.Context, args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	cfg := server.Default()
	cfg.StartupCheckInterval = 1
	flags := flag.NewFlagSet("picker", flag.ContinueOnError)
	flags.SetOutput(out)
	port := flags.Int("port", 30082, "port on 127.0.0.1; 0 takes a free one")
	flags.StringVar(&cfg.Policy, "policy", cfg.Policy, "policy that chooses")
	flags.Func("worker", "URL of a worker; may be repeated. Without any, two mock engines are started", func(url string) error {
		cfg.WorkerURLs = append(cfg.WorkerURLs, url)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	for mocks := len(cfg.WorkerURLs) == 0; mocks && len(cfg.WorkerURLs) < 2; {
		url, stopEngine, err := startEngine()
		if err != nil {
			return err
		}
		defer stopEngine()
		cfg.WorkerURLs = append(cfg.WorkerURLs, url)
	}
	gateway, err := server.New(cfg, nil)
	if err != nil {
		return err
	}
	defer gateway.Close(context.Background()) // behind the server's end
	for _, route := range routes {
		chain, err := picking(gateway, route)
		if err == nil {
			err = gateway.Use(chain)
		}
		if err != nil {
			return err
		}
	}
	return serve(ctx, *port, gateway.Handler(), out)
}

// serve listens on loopback until ctx ends; then it lets the requests in flight end.
func serve(ctx context.Context, port int, h http.Handler, out io.Writer) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "picker on http://%s\n", l.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		return srv.Close() // the grace period is over
	}
	return nil
}
