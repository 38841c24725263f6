package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/telemetry"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "customchain: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends or a signal comes.
func run(ctx context.Context, args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	if len(o.shared)+len(o.reserved) == 0 {
		stopEngines, err := o.startEngines()
		if err != nil {
			return err
		}
		defer stopEngines()
	}
	log := slog.Default()
	p := newParts(o, log)
	defer p.transport.CloseIdleConnections()
	defer p.enroller.Close()
	chain, err := p.chain()
	if err != nil {
		return err // a wrong chain never serves a request
	}
	rt := pipeline.NewRuntime(log)
	defer rt.Stop(context.Background()) // whatever outlives its response has an end of its own
	chains, err := server.Handler(rt, chain)
	if err != nil {
		return err
	}
	return serve(ctx, o.port, p.routes(rt, chains, log), out, chain)
}

// routes puts what a program answers by itself beside the chains.
func (p *parts) routes(rt *pipeline.Runtime, chains http.Handler, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", chains)
	mux.Handle("/metrics", telemetry.MetricsHandler(p.metrics, log))
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) {
		if waiting := rt.Waiting(); waiting != "" {
			http.Error(w, "waiting for "+waiting, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

// serve listens on loopback until ctx ends, and lets the requests in flight end.
func serve(ctx context.Context, port int, h http.Handler, out io.Writer, chain *pipeline.Chain) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "customchain on http://%s\n", l.Addr())
	if err := server.Describe(out, "text", chain); err != nil {
		return err
	}
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
