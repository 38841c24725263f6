package main

import (
	"bytes"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// launchFlags are the flags of the configuration.
func launchFlags(t *testing.T) []*kong.Flag {
	t.Helper()
	c := &cli{stdout: io.Discard, stderr: io.Discard}
	parser, err := kong.New(c, c.options()...)
	require.NoError(t, err)
	return parser.Model.Children[0].Flags
}

// What an error calls a flag is what the user has to type.
func TestViolationsNameFlagsThatExist(t *testing.T) {
	names := map[string]bool{}
	paths := []string{"config", "log-dir", "record", "service-discovery-kubeconfig"} // what is there is seen when it is opened
	for _, flag := range launchFlags(t) {
		names["--"+flag.Name] = true
	}
	minus := -1
	cfg := &server.Config{} // most zeros are out of range; the rest is made so
	cfg.HealthCheckPort, cfg.WorkerThreads, cfg.PrometheusPort = &minus, &minus, minus
	cfg.WorkerURLs, cfg.CORSAllowedOrigins = []string{""}, []string{""}
	cfg.RoutingKeyHeaders, cfg.RequestIDHeaders = []string{""}, []string{""}
	cfg.ModelAliases = []server.ModelAlias{{Alias: "x", Model: "a"}, {Alias: "x", Model: "b"}}
	cfg.EnableTrace, cfg.OTLPTracesEndpoint, cfg.TraceSampleRatio = true, "collector", new(-1.0)
	cfg.DurationBuckets, cfg.RetryJitterFactor = []float64{0}, math.NaN()
	cfg.StartupDelay, cfg.UpstreamIdleTimeout, cfg.ShutdownGracePeriod, cfg.MaxBufferedRequestBytes = -1, -1, -1, -1
	cfg.BodyStallTimeout, cfg.SSEKeepalive, cfg.HeaderReadTimeout, cfg.IdleConnectionTimeout, cfg.DrainSettle = -1, -1, -1, -1, -1
	cfg.EnableTrace, cfg.OTLPTracesEndpoint, cfg.TraceSampleRatio = true, "collector", new(-1.0)
	cfg.CacheThreshold, cfg.OverlapDecay, cfg.SelectionTemperature, cfg.KVPressureWeight = -1, -1, math.Inf(1), math.NaN()
	cfg.BalanceAbs, cfg.PrefixBalanceAbs, cfg.MaxWaiting, cfg.EvictionInterval, cfg.MaxIdle = -1, -1, -1, -1, -1
	cfg.CacheBoundaries = []int{0}
	cfg.MaxConcurrentRequests, cfg.QueueSize, cfg.QueueTimeout, cfg.TokensPerSecond = -2, -1, -1, -1
	cfg.WorkerOverloadWaiting, cfg.WorkerOverloadUsage = new(int64(-1)), new(-1.0)
	cfg.TLSCertPath, cfg.ClientCertPath, cfg.CACertPaths = "cert.pem", "cert.pem", []string{""}
	keys := server.Default()
	keys.TLSKeyPath, keys.ClientKeyPath = "key.pem", "key.pem" // each alone is as wrong as a certificate alone
	cfg.APIKey, cfg.TenantAPIKeys, cfg.ControlPlaneAPIKeys, cfg.JWTRoleMapping = new(""), []string{""}, []string{""}, []string{""}
	cfg.JWTIssuer, cfg.JWTAudience, cfg.JWKSURI = new(""), new(""), new("")
	cfg.ServiceDiscovery, cfg.PodNamespaces, cfg.PodModel = true, []string{""}, "nowhere"
	keys.Provider, keys.CheckInterval = new("file"), 0

	violated := map[string]bool{}
	for _, v := range append(cfg.Validate(), keys.Validate()...) {
		require.True(t, names[v.Flag], v.Flag)
		violated[v.Flag] = true
	}
	for _, flag := range launchFlags(t) {
		free := flag.IsBool() || flag.Enum != "" || slices.Contains(paths, flag.Name)
		require.NotEqual(t, free, violated["--"+flag.Name], "--%s is either free or checked", flag.Name)
	}
}

// cli.md, section 1
func TestHelpShowsEveryFlagUnderItsHeading(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"launch", "--help"}, {"serve", "--help"}, {"-h"}} {
		var stdout, stderr bytes.Buffer
		require.Zero(t, smg(args, &stdout, &stderr))
		require.Empty(t, stderr.String())
		lines := strings.Split(stdout.String(), "\n")
		heading := ""
		under := map[string]string{}
		for _, line := range lines {
			name, isFlag := strings.CutPrefix(line, "  --")
			name = strings.TrimPrefix(name, "[no-]")
			switch {
			case line != "" && line[0] != ' ':
				heading = line
			case isFlag:
				under[strings.FieldsFunc(name, func(r rune) bool { return r == '=' || r == ' ' })[0]] = heading
			}
		}
		for _, flag := range launchFlags(t) {
			require.NotEmpty(t, flag.Help, flag.Name)
			if flag.Name != "config" {
				require.NotNil(t, flag.Group, flag.Name)
				require.Equal(t, flag.Group.Title, under[flag.Name], "%v: %s", args, flag.Name)
			}
		}
	}
}

// cli.md, section 5.12
func TestSecretsAreMasked(t *testing.T) {
	var grammar struct {
		Key   string   `secret:"" group:"Auth"`
		Keys  []string `secret:"" type:"multi" group:"Auth"`
		Unset string   `secret:"" group:"Auth"`
	}
	parser, err := kong.New(&grammar, mappers()...)
	require.NoError(t, err)
	_, err = parser.Parse([]string{"--key", "k1", "--keys", "k2", "k3"})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, writeConfig(&out, parser.Model.Flags))
	require.Equal(t, "# Auth\nkey: '***'\nkeys: '***'\nunset: \"\"\n", out.String())
}

// cli.md, section 4: variables that exist today keep their names
func TestWellKnownVariables(t *testing.T) {
	var grammar struct {
		Issuer string `variable:"JWT_ISSUER OTHER_ISSUER"`
		Port   int
	}
	parser, err := kong.New(&grammar, append(mappers(), kong.Resolvers(&sources{}))...)
	require.NoError(t, err)
	t.Setenv("JWT_ISSUER", "")
	t.Setenv("OTHER_ISSUER", "https://i")
	t.Setenv("SMG_FLAG_ISSUER", "https://made")
	t.Setenv("SMG_FLAG_PORT", "7")
	_, err = parser.Parse(nil)
	require.NoError(t, err)
	require.Equal(t, "https://i", grammar.Issuer)
	require.Equal(t, 7, grammar.Port)
	_, err = parser.Parse([]string{"--issuer", "https://j"})
	require.NoError(t, err)
	require.Equal(t, "https://j", grammar.Issuer)
}

// cli.md, section 2: a switch that can be unset, as --remove-unhealthy-workers will be
func TestOptionalSwitch(t *testing.T) {
	yes, no := true, false
	for args, want := range map[string]*bool{"": nil, "--remove": &yes, "--remove=false": &no, "--no-remove": &no, "--remove=true": &yes} {
		var grammar struct {
			Remove *bool `negatable:""`
		}
		parser, err := kong.New(&grammar, mappers()...)
		require.NoError(t, err)
		_, err = parser.Parse(strings.Fields(args))
		require.NoError(t, err, args)
		require.Equal(t, want, grammar.Remove, args)
	}
}
