package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// The defaults in the tags, which help shows, are those that programs get.
func TestDefaultsOfTheCommandLineAreThoseOfTheServer(t *testing.T) {
	want := server.Default()
	got := launched(t)
	// kong makes lists that nobody fills empty or nil as it likes
	require.Empty(t, got.WorkerURLs)
	require.Empty(t, got.CacheBoundaries)
	got.WorkerURLs, got.ModelAliases, got.CORSAllowedOrigins, got.CacheBoundaries = nil, nil, nil, nil
	require.Empty(t, slices.Concat(got.TenantAPIKeys, got.ControlPlaneAPIKeys, got.JWTRoleMapping))
	got.TenantAPIKeys, got.ControlPlaneAPIKeys, got.JWTRoleMapping = nil, nil, nil
	require.Equal(t, want, got)
}

// cli.md, section 1; DECISIONS 16
func TestEveryWayToStartTheGatewayTakesTheSameFlags(t *testing.T) {
	flags := []string{"--port", "1", "--worker-urls", "http://a:1", "http://b:2", "--policy", "random"}
	want := launched(t, flags...)
	require.Equal(t, 1, want.Port)
	require.Equal(t, []string{"http://a:1", "http://b:2"}, want.WorkerURLs)
	require.Equal(t, "random", want.Policy)
	for _, command := range []string{"launch", "start", "serve"} {
		require.Equal(t, want, launched(t, append([]string{command}, flags...)...), command)
	}
}

// cli.md, sections 2.1 and 2.2
func TestArgumentSyntax(t *testing.T) {
	tests := []struct {
		name, args string
		want       func(c *server.Config) // changes the default into what is expected
	}{
		{"nothing is the default", "", func(*server.Config) {}},
		{"a value may follow the flag", "--port 1", func(c *server.Config) { c.Port = 1 }},
		{"a value may follow =", "--port=1", func(c *server.Config) { c.Port = 1 }},
		{"the last of two values wins", "--port 1 --port=2 --port 3", func(c *server.Config) { c.Port = 3 }},
		{"the last of two optional values wins", "--health-check-port 1 --health-check-port 2", func(c *server.Config) { n := 2; c.HealthCheckPort = &n }},
		{"a bare switch is on", "--log-json", func(c *server.Config) { c.LogJSON = true }},
		{"a switch may be told so", "--log-json=true", func(c *server.Config) { c.LogJSON = true }},
		{"a switch may be told otherwise", "--log-json --log-json=false", func(*server.Config) {}},
		{"a fraction may be written as a whole number", "--retry-backoff-multiplier 2", func(c *server.Config) { c.RetryBackoffMultiplier = 2 }},
		{"a fraction may lack its zero", "--retry-jitter-factor .5", func(c *server.Config) { c.RetryJitterFactor = .5 }},
		{"a fraction may have an exponent", "--retry-jitter-factor 1e-3", func(c *server.Config) { c.RetryJitterFactor = 1e-3 }},
		{"a leading zero does not make a number octal", "--port 010", func(c *server.Config) { c.Port = 10 }},
		{"a list takes the words up to the next flag", "--worker-urls http://a http://b --port 5", func(c *server.Config) {
			c.WorkerURLs, c.Port = []string{"http://a", "http://b"}, 5
		}},
		{"lists accumulate in order", "--worker-urls http://a http://b --worker-urls http://c --worker-urls=http://d", func(c *server.Config) {
			c.WorkerURLs = []string{"http://a", "http://b", "http://c", "http://d"}
		}},
		{"a list may be given empty", "--worker-urls --port 5", func(c *server.Config) { c.Port = 5 }},
		{"a list may be given empty at the end", "--port 5 --worker-urls", func(c *server.Config) { c.Port = 5 }},
		{"an empty list replaces its default", "--routing-key-headers --port 5", func(c *server.Config) { c.RoutingKeyHeaders, c.Port = []string{}, 5 }},
		{"a list replaces its default", "--routing-key-headers X-Routing-Key x-smg-routing-key", func(c *server.Config) {
			c.RoutingKeyHeaders = []string{"x-routing-key", "x-smg-routing-key"}
		}},
		{"a repeated list replaces its default once", "--routing-key-headers X-A --routing-key-headers X-B", func(c *server.Config) {
			c.RoutingKeyHeaders = []string{"x-a", "x-b"}
		}},
		{"a list of numbers takes words too", "--prometheus-duration-buckets 0.1 1 10 --port 5", func(c *server.Config) {
			c.DurationBuckets, c.Port = []float64{0.1, 1, 10}, 5
		}},
		{"numbers may be separated by commas", "--cache-boundaries 16,64 --port 5", func(c *server.Config) { c.CacheBoundaries, c.Port = []int{16, 64}, 5 }},
		{"numbers may be separated by commas behind =", "--cache-boundaries=16,64", func(c *server.Config) { c.CacheBoundaries = []int{16, 64} }},
		{"numbers may be separated by blanks", "--cache-boundaries 16 64, 128", func(c *server.Config) { c.CacheBoundaries = []int{16, 64, 128} }},
		{"aliases are pairs", "--model-alias x=a y=a=b --model-alias=z=c", func(c *server.Config) {
			c.ModelAliases = []server.ModelAlias{{Alias: "x", Model: "a"}, {Alias: "y", Model: "a=b"}, {Alias: "z", Model: "c"}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := server.Default()
			tt.want(want)
			got := launched(t, strings.Fields(tt.args)...)
			if len(got.WorkerURLs) == 0 {
				got.WorkerURLs = nil
			}
			if len(got.CacheBoundaries) == 0 {
				got.CacheBoundaries = nil
			}
			require.Equal(t, want, got)
		})
	}
}

// cli.md, section 2.2, rule 6
func TestValuesOfListsAreTrimmedAndEmptyOnesDropped(t *testing.T) {
	require.Equal(t, []string{"http://a", "http://b"}, launched(t, "--worker-urls", " http://a\t", "", "http://b").WorkerURLs)
	require.Equal(t, []string{"x-a"}, launched(t, "--routing-key-headers", " X-A ").RoutingKeyHeaders)
}

// cli.md, sections 1, 2, 6.5 and 9; DECISIONS 48
func TestWhatCannotBeUnderstoodExitsWithTwo(t *testing.T) {
	tests := []struct {
		name, want string // the first line of standard error
		args       []string
	}{
		{"an unknown flag", "unknown flag --bogus", []string{"--bogus"}},
		{"an unknown flag that is nearly right", "unknown flag --worker-url, did you mean --worker-urls?", []string{"--worker-url", "http://a"}},
		{"a flag of a part that does not exist yet", "unknown flag --prefill-policy", []string{"--prefill-policy", "random"}},
		{"roles of pods, which do not exist yet", "unknown flag --prefill-selector", []string{"--prefill-selector", "role=prefill"}},
		{"peers, which do not exist yet", "unknown flag --router-selector", []string{"--router-selector", "app=smg"}},
		{"a provider that does not exist", `--discovery-provider must be one of "kubernetes","file" but got "consul"`, []string{"--discovery-provider", "consul"}},
		{"an index that does not exist yet", `--cache-index must be one of "tree" but got "hash"`, []string{"--cache-index", "hash"}},
		{"a way to assign that does not exist", `--assignment-mode must be one of "random","min_load","min_group","delegate" but got "best"`, []string{"--assignment-mode", "best"}},
		{"a boundary that is no number", "--cache-boundaries: 'x' is not a whole number", []string{"--cache-boundaries", "16,x"}},
		{"the beginning of a flag's name", "unknown flag --por, did you mean --port?", []string{"--por", "1"}},
		{"a name that is no longer in use", "unknown flag --stream-request-bodies-over, did you mean --max-buffered-request-bytes?", []string{"--stream-request-bodies-over", "1"}},
		{"a name that is no longer in use, with =", "unknown flag --stream-request-bodies-over, did you mean --max-buffered-request-bytes?", []string{"--stream-request-bodies-over=1"}},
		{"an unknown command", "unexpected argument lunch, did you mean launch?", []string{"lunch"}},
		{"a flag before a command", "unexpected argument version; a command must be the first word", []string{"--port", "5", "version"}},
		{"a flag before launch", "unexpected argument launch; a command must be the first word", []string{"--port", "8080", "launch"}},
		{"a word too many", "unexpected argument extra", []string{"launch", "--port", "1", "extra"}},
		{"a word after a switch", "unexpected argument true", []string{"--log-json", "true"}},
		{"a word after the one value of a list", "unexpected argument http://b", []string{"--worker-urls=http://a", "http://b"}},
		{"words after --", "unexpected argument x", []string{"--worker-urls", "http://a", "--", "x"}},
		{"a number in a list that looks like a flag", "unknown flag -5", []string{"--prometheus-duration-buckets", "1", "-5"}},
		{"no value", "--port: needs a value", []string{"--port"}},
		{"a flag in place of a value", "--host: needs a value, and --port is a flag", []string{"--host", "--port", "80"}},
		{"a word in place of a number", "--port: 'http' is not a whole number", []string{"--port", "http"}},
		{"a fraction in place of a whole number", "--port: '1.5' is not a whole number", []string{"--port", "1.5"}},
		{"an empty number", "--port: '' is not a whole number", []string{"--port="}},
		{"a word in place of a fraction", "--retry-jitter-factor: 'x' is not a number", []string{"--retry-jitter-factor", "x"}},
		{"a word in place of a bound", "--prometheus-duration-buckets: 'x' is not a number", []string{"--prometheus-duration-buckets", "1", "x"}},
		{"a switch that is neither on nor off", "--log-json: 'maybe' is not true or false", []string{"--log-json=maybe"}},
		{"a policy that does not exist", `--policy must be one of "random","round_robin","passthrough","cache_aware","power_of_two","least_load","prefix_hash","consistent_hashing","manual","bucket","least_work" but got "best"`, []string{"--policy", "best"}},
		{"a policy in capitals", `--policy must be one of "random","round_robin","passthrough","cache_aware","power_of_two","least_load","prefix_hash","consistent_hashing","manual","bucket","least_work" but got "Random"`, []string{"--policy", "Random"}},
		{"an alias of itself", "--model-alias: 'a=a' names the model itself", []string{"--model-alias", "a=a"}},
		{"an alias without a name", "--model-alias: '=a' is not of the form alias=model", []string{"--model-alias", "=a"}},
		{"an alias without a model", "--model-alias: 'a=' is not of the form alias=model", []string{"--model-alias", "a="}},
		{"two formats", "--json and --mermaid can't be used together", []string{"pipelines", "--json", "--mermaid"}},
		{"half a command", `expected "check"`, []string{"config"}},
		{"a file of an unknown kind", "--config: smg.toml: the name must end in .yaml, .yml or .json", []string{"--config", "smg.toml"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stderr := refused(t, tt.args...)
			first, rest, _ := strings.Cut(stderr, "\n")
			require.Equal(t, "error: "+tt.want, first)
			require.Regexp(t, `^run 'smg \w+ --help' for the flags\n$`, rest)
			require.Equal(t, exitUsage, code)
		})
	}
}

// cli.md, sections 2.1, 2.2 and 6
func TestWhatCannotBeStartedExitsWithOne(t *testing.T) {
	tests := []struct {
		name, want string
		args       []string
	}{
		{"a negative number after the flag", "invalid --port: '-1': must be between 1 and 65535", []string{"--port", "-1"}},
		{"a negative number after =", "invalid --port: '-1': must be between 1 and 65535", []string{"--port=-1"}},
		{"a negative fraction", "invalid --retry-jitter-factor: '-0.5': must be between 0.0 and 1.0", []string{"--retry-jitter-factor", "-.5"}},
		{"not a number", "invalid --retry-jitter-factor: 'NaN': must be a finite number", []string{"--retry-jitter-factor", "NaN"}},
		{"a command word among URLs is a URL", "invalid --worker-urls: 'version': URL must start with a lowercase http://", []string{"--worker-urls", "http://a", "version"}},
		{"one value after = is not taken apart", "invalid --worker-urls: 'http://a,http://b': ", []string{"--worker-urls=http://a,http://b"}},
		{"an empty header name", "invalid --routing-key-headers: '': must be the name of an HTTP header", []string{"--routing-key-headers", ""}},
		{"a header name with a blank", "invalid --routing-key-headers: 'has space': must be the name of an HTTP header", []string{"--routing-key-headers", "has space"}},
		{"a file that is not there", "cannot read the configuration: open nowhere.yaml: no such file or directory", []string{"--config", "nowhere.yaml"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stderr := refused(t, tt.args...)
			require.Contains(t, stderr, "error: "+tt.want)
			require.Equal(t, 1, strings.Count(stderr, "\n"))
			require.Equal(t, exitFailed, code)
		})
	}
}

// cli.md, section 7.2
func TestTheBannerIsForPeople(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminal to be had:", err)
	}
	defer terminal.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()

	text, json := server.Default(), server.Default()
	json.LogJSON = true
	require.True(t, (&cli{stdout: terminal}).wantsBanner(text))
	require.False(t, (&cli{stdout: terminal}).wantsBanner(json), "JSON lines stay alone")
	require.False(t, (&cli{stdout: file}).wantsBanner(text), "a file is for programs")
	require.False(t, (&cli{stdout: &bytes.Buffer{}}).wantsBanner(text))
}

func TestPipelinesPassesOnFormatAndConfiguration(t *testing.T) {
	defer func(before func(*server.Config, string, string, io.Writer) error) { pipelines = before }(pipelines)
	pipelines = func(cfg *server.Config, route, format string, w io.Writer) error {
		_, err := fmt.Fprintf(w, "%q %s %d", route, format, cfg.Port)
		return err
	}
	for flags, want := range map[string]string{
		"": `"" text 7`, "--json": `"" json 7`, "--mermaid": `"" mermaid 7`, "--mermaid --route other": `"other" mermaid 7`,
	} {
		var stdout, stderr bytes.Buffer
		require.Zero(t, smg(strings.Fields("pipelines --port 7 "+flags), &stdout, &stderr), stderr.String())
		require.Equal(t, want, stdout.String())
	}
}

// cli.md, section 9: a runtime failure is 1
func TestAGatewayThatFailsExitsWithOne(t *testing.T) {
	defer func(before func(context.Context, *server.Config) error) { run = before }(run)
	run = func(context.Context, *server.Config) error {
		return errors.New("listen tcp 0.0.0.0:30000: address already in use")
	}
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, smg(nil, &stdout, &stderr))
	require.Equal(t, "error: listen tcp 0.0.0.0:30000: address already in use\n", stderr.String())
	require.Empty(t, stdout.String())
}

// cli.md, section 5.13
func TestWorkerThreadsSetGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	launched(t, "--runtime-worker-threads", "3")
	require.Equal(t, 3, runtime.GOMAXPROCS(0))
}
