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
		fmt.Fprintf(os.Stderr, "embed: %v\n", err)
		os.Exit(1)
	}
}

// run serves until ctx ends or a signal comes.
func run(ctx context.Context, args []string, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	cfg := server.Default() // as `smg launch` without flags
	cfg.StartupCheckInterval = 1
	flags := flag.NewFlagSet("embed", flag.ContinueOnError)
	flags.SetOutput(out)
	port := flags.Int("port", 30081, "port on 127.0.0.1; 0 takes a free one")
	key := flags.String("key", "secret", "what clients must send as X-Key")
	flags.Func("worker", "URL of a worker; may be repeated. Without any, a mock engine is started", func(url string) error {
		cfg.WorkerURLs = append(cfg.WorkerURLs, url)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	if len(cfg.WorkerURLs) == 0 {
		url, stopEngine, err := startEngine()
		if err != nil {
			return err
		}
		defer stopEngine()
		cfg.WorkerURLs = []string{url}
	}
	gateway, err := server.New(cfg, nil) // refuses a configuration that is wrong; from now on workers are contacted
	if err != nil {
		return err
	}
	defer gateway.Close(context.Background()) // behind the server's end
	return serve(ctx, *port, routes(gateway, *key), gateway, out)
}

// routes are the program's own, and the gateway among them.
func routes(gateway *server.Gateway, key string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "This is somebody's server.") })
	mux.Handle("/llm/", withKey(key, http.StripPrefix("/llm", gateway.Handler())))
	mux.Handle("GET /metrics", gateway.Metrics())
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !gateway.Ready() {
			http.Error(w, "no worker yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	return mux
}

// withKey lets nobody in without the key. It hands the ResponseWriter on as it is: a wrapped one must be able to flush.
func withKey(key string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != key {
			http.Error(w, "X-Key is wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve listens on loopback until ctx ends; then it lets the requests in flight end.
func serve(ctx context.Context, port int, h http.Handler, gateway *server.Gateway, out io.Writer) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "embed on http://%s\n", l.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	gateway.Drain() // behind a load balancer: wait here until it has noticed
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := srv.Shutdown(grace); err != nil {
		return srv.Close() // the grace period is over
	}
	return nil
}
