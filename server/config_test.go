package server_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// DECISIONS 11; cli.md, sections 6.2 and 6.3
func TestWarnings(t *testing.T) {
	const two = "--policy power_of_two chooses between two workers, and fewer are configured"
	const twice = "--worker-urls names http://a more than once; it is registered once"
	tests := []struct {
		name   string
		policy string
		igw    bool
		urls   []string
		want   []string
	}{
		{"an ordinary start has none", "round_robin", false, []string{"http://a"}, nil},
		{"power of two without two workers", "power_of_two", false, []string{"http://a"}, []string{two}},
		{"power of two with two workers", "power_of_two", false, []string{"http://a", "http://b"}, nil},
		{"power of two with one worker, named twice", "power_of_two", false, []string{"http://a", "http://a"}, []string{twice, two}},
		{"power of two with IGW, where workers come later", "power_of_two", true, nil, nil},
		{"a slash at the end is no other worker", "random", false, []string{"http://a/", "http://a"}, []string{twice}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			cfg.Policy, cfg.EnableIGW, cfg.WorkerURLs = tt.policy, tt.igw, tt.urls
			require.Equal(t, tt.want, cfg.Warnings())
		})
	}
}

// policies.md, section 13: without a sweep the map grows without limit
func TestKeysThatAreNeverForgottenAreWarnedOf(t *testing.T) {
	const idle = "with --max-idle-secs 0 no routing key is ever forgotten; memory grows with every new one"
	const rounds = "with --eviction-interval 0 no routing key is ever forgotten; memory grows with every new one"
	tests := []struct {
		name           string
		policy         string
		sticky         bool
		rounds, unused server.Seconds
		want           []string
	}{
		{"manual forgets by default", "manual", false, 60, 14400, nil},
		{"manual without rounds", "manual", false, 0, 14400, []string{rounds}},
		{"manual without a limit", "manual", false, 60, 0, []string{idle}},
		{"sticky sessions without a limit", "random", true, 60, 0, []string{idle}},
		{"other policies have no keys to forget", "random", false, 0, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Default()
			cfg.Policy, cfg.RoutingKeyOverride, cfg.EvictionInterval, cfg.MaxIdle = tt.policy, tt.sticky, tt.rounds, tt.unused
			require.Equal(t, tt.want, cfg.Warnings())
		})
	}
}

// cli.md, section 6.2: keep one of two equal URLs
func TestStartupURLsNameEachWorkerOnce(t *testing.T) {
	cfg := server.Default()
	cfg.WorkerURLs = []string{"http://b", "http://a/", "http://b/", "http://a", "http://a/x"}
	require.Equal(t, []string{"http://b", "http://a/", "http://a/x"}, cfg.StartupURLs())
}

// cli.md, sections 5.10 and 7.1
func TestDisabledRetriesAndBreakersAreOutOfReach(t *testing.T) {
	cfg := server.Default()
	require.Equal(t, 5, cfg.Attempts())
	require.Equal(t, 10, cfg.FailureThreshold())
	cfg.DisableRetries, cfg.DisableBreaker = true, true
	require.Equal(t, 1, cfg.Attempts())
	require.Equal(t, math.MaxInt, cfg.FailureThreshold())
}

// cli.md, section 9
func TestSettleWindowIsHalfOfTheGracePeriodUpToFiveSeconds(t *testing.T) {
	for grace, want := range map[server.Seconds]time.Duration{180: 5 * time.Second, 4: 2 * time.Second, 3: 1500 * time.Millisecond, 0: 0} {
		cfg := server.Default()
		cfg.ShutdownGracePeriod = grace
		require.Equal(t, want, cfg.SettleWindow())
	}
}

func TestTheLongestTimesFitADuration(t *testing.T) {
	require.Equal(t, 4294967295*time.Second, server.Seconds(4294967295).Duration())
	require.Equal(t, 1500*time.Millisecond, server.Milliseconds(1500).Duration())
}

// cli.md, section 5.1: :: and [::] alike
func TestAddresses(t *testing.T) {
	cfg := server.Default()
	require.Equal(t, "0.0.0.0:30000", cfg.Address())
	require.Equal(t, "0.0.0.0:29000", cfg.MetricsAddress())
	require.Empty(t, cfg.HealthCheckAddress())
	probe := 30001
	cfg.HealthCheckPort = &probe
	for _, host := range []string{"::", "[::]"} {
		cfg.Host = host
		require.Equal(t, "[::]:30000", cfg.Address())
		require.Equal(t, "[::]:30001", cfg.HealthCheckAddress())
	}
}

// cli.md, section 7.2
func TestBanner(t *testing.T) {
	cfg := server.Default()
	require.Equal(t, "smg\nversion "+server.Version+"\nlistening 0.0.0.0:30000\nmode Regular\nPolicy: cache_aware\n", server.Banner(cfg))
	cfg.EnableIGW = true
	require.Equal(t, "smg\nversion "+server.Version+"\nlistening 0.0.0.0:30000\nmode IGW (Inference Gateway)\n", server.Banner(cfg))
}

// cli.md, section 6.5
func TestModelAliasText(t *testing.T) {
	tests := []struct{ text, want, err string }{
		{"x=a", "x=a", ""},
		{" x = a ", "x=a", ""},
		{"x=a=b", "x=a=b", ""},
		{"a=a", "", "'a=a' names the model itself"},
		{"=a", "", "'=a' is not of the form alias=model"},
		{"a=", "", "'a=' is not of the form alias=model"},
		{"a", "", "'a' is not of the form alias=model"},
	}
	for _, tt := range tests {
		var alias server.ModelAlias
		err := alias.UnmarshalText([]byte(tt.text))
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
		text, err := alias.MarshalText()
		require.NoError(t, err)
		require.Equal(t, tt.want, string(text))
	}
}
