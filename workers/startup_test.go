package workers

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// DECISIONS 41; time is the test's own. An engine is named after what it does.
func TestStartupIsReadyWithoutAHerdOnTheFirst(t *testing.T) {
	const never = -time.Second
	tests := []struct {
		name         string
		urls         []string
		ready, ended time.Duration
		workers      int
	}{
		{"no workers", nil, 0, 0, 0},
		{"all are up", []string{"http://up-1", "http://up-2"}, 0, 0, 2},
		{"one is down: it has failed its first probe", []string{"http://up-1", "http://down"}, 0, 100 * time.Second, 1},
		{"all are down", []string{"http://down"}, 0, 100 * time.Second, 0},
		{"one hangs for the whole of its probe", []string{"http://hangs"}, 5 * time.Second, 100 * time.Second, 0},
		{"one hangs, another is up after 2 s: not before the first probe of the hanging one ended", []string{"http://hangs", "http://slow"}, 5 * time.Second, 100 * time.Second, 1},
		{"one is stuck in detection: 5 s after the first was ready", []string{"http://up-1", "http://stuck"}, 5 * time.Second, 105 * time.Second, 1},
		{"a URL that comes twice", []string{"http://up-1", "http://up-1/"}, 0, 0, 1},
		{"a URL that is none", []string{"up-1"}, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEnroller(NewRegistry(), DefaultSettings(), Startup{Interval: 30 * time.Second, Timeout: 100 * time.Second}, nil)
				defer e.Close()
				e.clients.http1.Transport = roundTrip(pretend)
				var specs []Spec
				for _, url := range tt.urls {
					specs = append(specs, NewSpec(url))
				}
				begun, ready := time.Now(), never
				s := e.Startup(specs)
				require.Equal(t, "startup-workers", s.Name())
				require.NoError(t, s.Run(t.Context(), func() { ready = time.Since(begun) }))
				require.Equal(t, tt.ready, ready)
				require.Equal(t, tt.ended, time.Since(begun).Truncate(time.Second))
				require.Equal(t, tt.workers, e.registry.Len())
			})
		})
	}
}

// pretend answers as the host's name says.
func pretend(r *http.Request) (*http.Response, error) {
	healthy := r.URL.Path == "/health"
	switch host := r.URL.Hostname(); {
	case host == "down":
		return nil, errors.New("connection refused")
	case host == "hangs", host == "stuck" && !healthy:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case host == "slow" && healthy:
		time.Sleep(2 * time.Second)
	}
	return status(200, `{"data":[{"id":"m","owned_by":"vllm"}]}`), nil
}

// workers.md section 12: started again, it finds its workers there
func TestStartupMayRunAgain(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	var log lines
	e := enrollerOf(t, quick, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	s := e.Startup([]Spec{NewSpec(engine.URL)})
	for range 2 {
		readied := 0
		require.NoError(t, s.Run(t.Context(), func() { readied++ }))
		require.Equal(t, 1, readied)
		require.Equal(t, 1, e.registry.Len())
	}
	require.Empty(t, log.String())
}

func TestStartupStopsPromptly(t *testing.T) {
	engine := startEngine(t, map[string]page{"/health": {503, ""}})
	e := enrollerOf(t, DefaultStartup(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	readied := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- e.Startup([]Spec{NewSpec(engine.URL)}).Run(ctx, func() { close(readied) })
	}()
	<-readied // the first probe has failed
	cancel()
	require.NoError(t, <-done)
}
