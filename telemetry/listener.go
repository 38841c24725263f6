package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	metricsHeadTimeout  = 10 * time.Second
	metricsIdleTimeout  = 2 * time.Minute // scrapes come every 15 to 60 s and keep their connection
	metricsCloseTimeout = 2 * time.Second // what a scrape that is under way may still take
)

// ListenMetrics binds the metrics listener, before anything else listens. host is an IP address, port 0 lets the system choose.
// The error begins with "failed to bind metrics server on <addr>".
func ListenMetrics(host string, port int) (net.Listener, error) {
	addr := net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(port))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil { // a name would be looked up, and might bind anywhere
		return nil, fmt.Errorf("failed to bind metrics server on %s: %q is not an IP address", addr, host)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("failed to bind metrics server on %s: %w", addr, err)
	}
	return ln, nil
}

// MetricsServer serves GET and HEAD /metrics and nothing else, without authentication.
type MetricsServer struct {
	server http.Server
	addr   net.Addr
	done   chan struct{}
	err    error // of Serve; read after done
}

// ServeMetrics serves m on ln until Close. It returns at once, and takes ln over.
func ServeMetrics(ln net.Listener, m *Metrics, log *slog.Logger) *MetricsServer {
	s := &MetricsServer{addr: ln.Addr(), done: make(chan struct{})}
	errorLog := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	s.server = http.Server{
		Handler: MetricsHandler(m, log), ErrorLog: errorLog,
		ReadTimeout: metricsHeadTimeout, IdleTimeout: metricsIdleTimeout,
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
			log.Error("metrics server ended", slog.Any("error", err))
		}
	}()
	log.Info(fmt.Sprintf("Metrics server listening on %s (/metrics)", s.addr))
	return s
}

// Addr is the bound address.
func (s *MetricsServer) Addr() net.Addr { return s.addr }

// Close stops listening and lets scrapes that are under way finish, for 2 s. It returns what ended serving before, if anything.
func (s *MetricsServer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), metricsCloseTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
	<-s.done
	return s.err
}

// MetricsHandler answers GET and HEAD /metrics: in the Prometheus text format, or in OpenMetrics for clients that ask for it.
// Other methods get 405, other paths 404.
func MetricsHandler(m *Metrics, log *slog.Logger) http.Handler {
	scrape := promhttp.HandlerFor(m.Registry(), promhttp.HandlerOpts{
		EnableOpenMetrics: true,
		ErrorHandling:     promhttp.ContinueOnError, // one bad series must not cost all the others
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelError),
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/metrics":
			w.WriteHeader(http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
		case strings.Contains(r.Header.Get("Accept"), "escaping="):
			scrape.ServeHTTP(w, r)
		default:
			scrape.ServeHTTP(&plainType{ResponseWriter: w}, r)
		}
	})
}

// plainType takes the parameter "escaping" off the content type. Clients that did not ask for it compare the type as a whole.
type plainType struct {
	http.ResponseWriter
	done bool
}

func (w *plainType) WriteHeader(status int) {
	w.fix()
	w.ResponseWriter.WriteHeader(status)
}

func (w *plainType) Write(b []byte) (int, error) {
	w.fix()
	return w.ResponseWriter.Write(b)
}

func (w *plainType) fix() {
	if w.done {
		return
	}
	w.done = true
	plain, _, _ := strings.Cut(w.Header().Get("Content-Type"), "; escaping=")
	w.Header().Set("Content-Type", plain)
}
