package server_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/workers"
)

// cli.md, section 5.3; load-signals.md, section 6
func TestCeilingsOfTheGateway(t *testing.T) {
	waiting, usage := int64(64), 0.5
	tests := []struct {
		name   string
		change func(c *server.Config)
		want   workers.OverloadSettings
	}{
		{"none by default", func(*server.Config) {}, workers.OverloadSettings{}},
		{"the protection alone is a ceiling of the cache", func(c *server.Config) { c.WorkerOverloadProtection = true }, workers.OverloadSettings{TokenUsage: 0.9}},
		{"a ceiling of what waits alone", func(c *server.Config) { c.WorkerOverloadWaiting = &waiting }, workers.OverloadSettings{WaitingRequests: 64}},
		{"a ceiling of the cache alone", func(c *server.Config) { c.WorkerOverloadUsage = &usage }, workers.OverloadSettings{TokenUsage: 0.5}},
		{"what is said beats 0.9", func(c *server.Config) { c.WorkerOverloadProtection, c.WorkerOverloadUsage = true, &usage }, workers.OverloadSettings{TokenUsage: 0.5}},
		{"both", func(c *server.Config) { c.WorkerOverloadProtection, c.WorkerOverloadWaiting = true, &waiting }, workers.OverloadSettings{WaitingRequests: 64, TokenUsage: 0.9}},
		{"falling back is no ceiling", func(c *server.Config) { c.WorkerOverloadFallback = true }, workers.OverloadSettings{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			tt.change(cfg)
			require.Empty(t, cfg.Validate())
			require.Equal(t, tt.want, cfg.Ceilings())
		})
	}
}

// cli.md, sections 5.3 and 5.5; load-signals.md, sections 4 and 6
func TestLoadFlagsOutsideTheirRangeAreRefused(t *testing.T) {
	waiting := func(n int64) func(*server.Config) {
		return func(c *server.Config) { c.WorkerOverloadWaiting = &n }
	}
	usage := func(f float64) func(*server.Config) {
		return func(c *server.Config) { c.WorkerOverloadUsage = &f }
	}
	const share = "must be above 0 and at most 1"
	tests := []struct {
		name   string
		change func(c *server.Config)
		want   []string
	}{
		{"workers are polled a second apart at least", func(c *server.Config) { c.LoadMonitorInterval = 0 }, []string{"invalid --load-monitor-interval: '0': must be at least 1"}},
		{"no time is negative", func(c *server.Config) { c.LoadMonitorInterval = -1 }, []string{"invalid --load-monitor-interval: '-1': must be at least 1"}},
		{"a ceiling of nobody who waits", waiting(0), []string{"invalid --worker-overload-waiting-requests: '0': must be at least 1"}},
		{"a ceiling of less", waiting(-1), []string{"invalid --worker-overload-waiting-requests: '-1': must be at least 1"}},
		{"a ceiling of one", waiting(1), nil},
		{"an empty cache", usage(0), []string{"invalid --worker-overload-token-usage: '0': " + share}},
		{"more than the cache", usage(1.5), []string{"invalid --worker-overload-token-usage: '1.5': " + share}},
		{"less than nothing", usage(-0.5), []string{"invalid --worker-overload-token-usage: '-0.5': " + share}},
		{"no number", usage(math.NaN()), []string{"invalid --worker-overload-token-usage: 'NaN': " + share}},
		{"the whole cache", usage(1), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			require.Equal(t, 10*time.Second, cfg.LoadMonitorInterval.Duration())
			tt.change(cfg)
			require.Equal(t, tt.want, sentences(cfg.Validate()))
		})
	}
}
