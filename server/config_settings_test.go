package server

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/bench/replay"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/telemetry"
)

// policies.md, section 18: the built-in settings and those of the flags differ; every flag arrives.
func TestPolicySettingsAreThoseOfTheFlags(t *testing.T) {
	log, metrics := slog.New(slog.DiscardHandler), telemetry.NewMetrics(telemetry.Options{})
	want := policy.BuiltIn(policy.Shared{Metrics: metrics.Policies, Log: log})
	want.CacheThreshold, want.BalanceAbs, want.BalanceRel = 0.3, 64, 1.5
	want.BucketRel = 1.5
	want.EvictionInterval, want.MaxTreeSize = time.Minute, 67108864
	require.Equal(t, want, policySettings(Default(), log, metrics), "the defaults")

	cfg := Default()
	cfg.CacheConfig = CacheConfig{
		CacheThreshold: 0.1, BalanceAbs: 2, BalanceRel: 3, BalanceTokenUsage: 0.4, OverloadTokenUsage: 0.5, OverlapDecay: 6,
		SelectionTemperature: 7, CountHeld: true, EvictionInterval: 8, MaxTreeSize: 9, IndexMemory: 10, BlockSize: 11,
	}
	cfg.PrefixConfig = PrefixConfig{PrefixTokens: 12, PrefixLoadFactor: 13, PrefixBalanceAbs: 14, CacheBoundaries: []int{15, 16}}
	cfg.WaitConfig = WaitConfig{KVPressureWeight: 17, DefaultThroughput: 18, MeanPrefillTokens: 19, MaxWaiting: 20}
	cfg.SessionConfig = SessionConfig{RoutingKeyOverride: true, AssignmentMode: new("min_group"), MaxIdle: 21, RoutingKeyHeaders: []string{"x-a"}}
	got := policySettings(cfg, log, metrics)
	got.Shared = policy.Shared{}
	require.Equal(t, policy.Settings{
		CacheThreshold: 0.1, BalanceAbs: 2, BalanceRel: 3, BalanceTokenUsage: 0.4, OverloadTokenUsage: 0.5, OverlapDecay: 6,
		SelectionTemperature: 7, CountHeld: true, EvictionInterval: 8 * time.Second, MaxTreeSize: 9, IndexMemory: 10, BlockSize: 11,
		PrefixTokens: 12, PrefixLoadFactor: 13, PrefixBalanceAbs: 14, Boundaries: []int{15, 16},
		KVPressureWeight: 17, DefaultThroughput: 18, MeanPrefillTokens: 19, MaxWaiting: 20,
		Sticky: true, Assignment: policy.AssignMinGroup, MaxIdle: 21 * time.Second, RoutingKeyNames: []string{"X-A"},
		BucketInterval: 5 * time.Second, BucketRel: 3,
	}, got)
	settings := reflect.ValueOf(got)
	for i := range settings.NumField() {
		if name := settings.Type().Field(i).Name; name != "Shared" {
			require.False(t, settings.Field(i).IsZero(), "%s is set by no flag", name)
		}
	}
}

// least-work.md, section 4: a simulation is of the policies that a gateway without flags has.
func TestASimulationHasTheSettingsOfAGatewayWithoutFlags(t *testing.T) {
	got := policySettings(Default(), slog.New(slog.DiscardHandler), telemetry.NewMetrics(telemetry.Options{}))
	got.Shared = policy.Shared{} // where they log and count
	require.Equal(t, got, replay.Defaults())
}
