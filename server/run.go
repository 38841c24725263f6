package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// Run serves until a signal ends it, or ctx does. The first SIGTERM or SIGINT begins the drain, a second one ends its settle
// window, a third one ends the process at once. The error is about starting: what could not be bound or opened.
func Run(ctx context.Context, cfg *Config) error {
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)

	if os.Getenv("GOGC") == "" { // else an operator has decided
		defer keepHeapFloor()()
	}
	logs, err := telemetry.NewLogger(cfg.LogConfig.Options())
	if err != nil {
		return err
	}
	defer logs.Close()
	s, err := listen(cfg, logs)
	if err != nil {
		return err
	}
	s.log.Info("router ready", "address", s.main.Addr().String(), "mode", cfg.Mode(), "policy", cfg.Policy,
		"max_payload_mb", cfg.MaxPayloadSize>>20, "workers", cfg.StartupURLs())
	if s.tls != nil {
		s.log.Info("TLS enabled: clients are served over HTTPS, HTTP/2 included", "certificate", cfg.TLSCertPath)
	}
	for _, w := range cfg.Warnings() {
		s.log.Warn(w)
	}
	s.log.Warn(s.openSurfaces())
	return s.run(ctx, signals)
}

// openSurfaces is the warning about all that is open without authentication.
func (s *server) openSurfaces() string {
	listeners := []string{"metrics (" + s.metrics.Addr().String() + ")"}
	if s.probes != nil {
		listeners = append(listeners, "probes ("+s.probes.Addr().String()+")")
	}
	return s.gateway.openSurfaces(listeners...)
}

// server is a gateway with its listeners.
type server struct {
	cfg     *Config
	log     *slog.Logger
	gateway *gateway
	metrics *telemetry.MetricsServer
	main    net.Listener
	tls     *tls.Config // nil without --tls-cert-path
	hangups *hangups
	probes  net.Listener // nil without --health-check-port
	front   *http.Server
	aside   *http.Server // serves probes
	settle  time.Duration

	newcomers newcomers
}

// listen binds the listeners, the metrics' first, and makes the gateway behind them. Nothing is contacted before all of them are
// bound.
func listen(cfg *Config, logs *telemetry.Log) (s *server, err error) {
	log := logs.Target(telemetry.Target)
	metrics := telemetry.NewMetrics(telemetry.Options{DurationBuckets: cfg.DurationBuckets, Version: Version, Commit: commit()})
	metrics.WatchLog(logs)
	s = &server{cfg: cfg, log: log, settle: cfg.SettleWindow(), newcomers: newcomers{all: map[*conn]time.Time{}}}
	defer func() {
		if err != nil {
			s.closeListeners()
		}
	}()
	if s.tls, err = clientTLS(cfg, log); err != nil {
		return s, err
	}
	metricsListener, err := telemetry.ListenMetrics(cfg.PrometheusHost, cfg.PrometheusPort)
	if err != nil {
		return s, err
	}
	s.metrics = telemetry.ServeMetrics(metricsListener, metrics, telemetry.WithTarget(log, "smg::telemetry"))
	if s.main, err = net.Listen("tcp", cfg.Address()); err != nil {
		return s, fmt.Errorf("failed to bind %s: %w", cfg.Address(), err)
	}
	if s.hangups, err = newHangups(); err != nil {
		return s, err
	}
	if address := cfg.HealthCheckAddress(); address != "" {
		if s.probes, err = net.Listen("tcp", address); err != nil {
			return s, fmt.Errorf("failed to bind the probe listener on %s: %w", address, err)
		}
	}
	if s.gateway, err = newGateway(cfg, log, metrics); err != nil {
		return s, err
	}
	if err := s.gateway.open(); err != nil {
		return s, err
	}
	handler, err := s.gateway.handler()
	if err != nil {
		return s, err
	}
	s.front = &http.Server{
		Handler: handler, ConnContext: withConn, ConnState: s.newcomers.note,
		ReadHeaderTimeout: cfg.HeaderReadTimeout.Duration(), IdleTimeout: cfg.IdleConnectionTimeout.Duration(),
		ErrorLog: slog.NewLogLogger(telemetry.WithTarget(log, "smg::proxy").Handler(), slog.LevelDebug),
	}
	s.aside = &http.Server{Handler: s.gateway.probeHandler(), ReadTimeout: 5 * time.Second, IdleTimeout: cfg.IdleConnectionTimeout.Duration()}
	return s, nil
}

func (s *server) closeListeners() {
	if s.hangups != nil {
		s.hangups.close()
	}
	for _, l := range []net.Listener{s.main, s.probes} {
		if l != nil {
			_ = l.Close()
		}
	}
	if s.metrics != nil {
		_ = s.metrics.Close()
	}
}

func (s *server) run(ctx context.Context, signals <-chan os.Signal) error {
	ended := make(chan error, 2)
	go s.hangups.run()
	defer s.hangups.close()
	go func() { ended <- s.front.Serve(clientListener{s.clients(), s.hangups, s.countTimeout}) }()
	if s.probes != nil {
		go func() { ended <- s.aside.Serve(s.probes) }()
	}
	var failure error
	select {
	case sig := <-signals:
		s.log.Info("shutdown begins", "signal", sig.String(), "in_flight", s.gateway.metrics.Inflight.Len())
	case <-ctx.Done():
		s.log.Info("shutdown begins", "in_flight", s.gateway.metrics.Inflight.Len())
	case failure = <-ended:
	}
	s.shutdown(signals)
	if failure != nil && !errors.Is(failure, http.ErrServerClosed) {
		return failure
	}
	return nil
}

// clients is where connections of clients come from.
func (s *server) clients() net.Listener {
	if s.tls == nil {
		return s.main
	}
	return newTLSListener(s.main, s.tls, s.cfg.HeaderReadTimeout.Duration(), s.countTimeout, telemetry.WithTarget(s.log, "smg::proxy"))
}

// countTimeout counts a connection that net/http is about to close: its client has begun no request, or not ended its head.
func (s *server) countTimeout(idle bool) {
	m := s.gateway.metrics.HTTP
	if idle {
		m.IdleTimeouts.Inc()
		return
	}
	m.HeaderTimeouts.Inc()
}

// shutdown: not ready any more, but still serving for the settle window; then no new connections, and the requests in flight,
// streams included, have the rest of the grace period; then what is left is cut.
func (s *server) shutdown(signals <-chan os.Signal) {
	grace := s.cfg.ShutdownGracePeriod.Duration()
	s.gateway.draining.Store(true)
	s.log.Info("draining", "settle", s.settle.String(), "grace", grace.String())
	deadline := time.Now().Add(grace)
	left := 2 // signals until the process ends
	select {
	case <-time.After(s.settle):
	case <-signals:
		left--
		s.log.Info("second signal: the settle window ends")
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	go exitOn(signals, left, ctx.Done())
	over := make(chan struct{})
	go s.newcomers.dismiss(over)
	err := s.front.Shutdown(ctx)
	close(over)
	if err != nil {
		s.log.Warn("grace period over, cutting what is left", "remaining", s.gateway.metrics.Inflight.Len())
		_ = s.front.Close()
	} else {
		s.log.Info("drained")
	}
	s.gateway.close(ctx)
	_ = s.aside.Close()
	_ = s.metrics.Close()
	s.log.Info("exiting")
}

// exitOn ends the process at the nth signal from now on.
func exitOn(signals <-chan os.Signal, n int, over <-chan struct{}) {
	for range n {
		select {
		case <-signals:
		case <-over:
			return
		}
	}
	os.Exit(1)
}

// probeHandler serves the probes alone, without anything in front of them.
func (g *gateway) probeHandler() http.Handler {
	mux := http.NewServeMux()
	live := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) }
	mux.HandleFunc("GET /liveness", live)
	mux.HandleFunc("GET /health", live)
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) {
		status, r := g.readiness()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(r)
	})
	return mux
}
