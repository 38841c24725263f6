package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// No request waits while many pods are registered. The time is that of a bubble.
func TestATurnstileLetsAFewThroughAtATime(t *testing.T) {
	tests := []struct {
		name   string
		takes  time.Duration // a registration
		rounds int           // of as many as are let through at a time
		want   time.Duration
	}{
		{"the first ones need not wait", time.Hour, 1, 0},
		{"one that ends makes room", 9500 * time.Microsecond, 3, 20 * time.Millisecond},
		{"one that lasts is not waited for long", time.Hour, 3, 2 * turnstilePatience},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				jobs := workers.NewJobs(workers.DefaultJobSettings(), slog.New(slog.DiscardHandler))
				defer jobs.Close()
				gate, began := newTurnstile(jobs), time.Now()
				for i := range tt.rounds * len(gate.inside) {
					address := fmt.Sprintf("10.0.0.%d:80", i)
					require.True(t, gate.enter(t.Context(), address))
					job := &workers.Job{Kind: workers.AddWorker, Key: address, Limit: 2 * time.Hour}
					job.Run = func(ctx context.Context, turn *workers.Turn) error { return turn.Pause(ctx, tt.takes) }
					require.NoError(t, jobs.Submit(t.Context(), job))
				}
				require.Equal(t, tt.want, time.Since(began))
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				require.False(t, gate.enter(ended, "10.0.1.1:80"), "nobody waits for ever")
			})
		})
	}
}
