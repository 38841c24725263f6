package discovery_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/workers"
)

// bare runs discovery with nothing but a registry in the place of a gateway, until the test ends: for what no flag of the gateway
// says. The workers are shown as a gateway shows them.
func (s *scene) bare(t *testing.T, selectors discovery.Selectors, settings discovery.Settings) *workers.Registry {
	t.Helper()
	settings.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	own := workers.DefaultSettings()
	own.DrainSettle = time.Second
	registry := workers.NewRegistry()
	enroller := workers.NewEnroller(registry, own, workers.Startup{Interval: time.Second, Timeout: patience}, settings.Log)
	source := discovery.NewKubernetes(discovery.KubernetesSettings{
		Selectors: selectors, Namespaces: []string{s.pods.Name}, Port: clustertest.Port, Kubeconfig: s.pods.Kubeconfig(t, s.proxy),
	}, settings.Log)
	d := discovery.New(source, registry, enroller, settings)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, d.Run(ctx, func() {})) })
	front := httptest.NewServer(shown(registry))
	s.URL = front.URL
	t.Cleanup(func() {
		cancel()
		running.Wait()
		enroller.Close()
		s.client.CloseIdleConnections()
		front.Close()
		if t.Failed() {
			t.Log(s.log.tail(60))
		}
	})
	return registry
}

// shown answers every request with the list of the workers.
func shown(registry *workers.Registry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		var answer struct {
			Workers []workers.View `json:"workers"`
		}
		for _, one := range registry.All() {
			answer.Workers = append(answer.Workers, one.View())
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// often are settings for tests that want many passes.
func often() discovery.Settings {
	settings := discovery.DefaultSettings()
	settings.Every = 200 * time.Millisecond
	return settings
}
