package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// discovering is a configuration that makes workers of pods, and is valid.
func discovering() *server.Config {
	cfg := server.Default()
	cfg.ServiceDiscovery, cfg.PodSelector = true, []string{"app=engine"}
	return cfg
}

// discovery.md, sections 3 and 4; cli.md, section 6.4; capture.md, section 8
func TestWhatDiscoveryCannotStartWithIsRefused(t *testing.T) {
	const source = "Expected: namespace, label:<key>, or annotation:<key>"
	tests := []struct {
		name   string
		change func(c *server.Config)
		want   string // contained in the only violation; empty if the configuration is fine
	}{
		{"a selector is enough", func(*server.Config) {}, ""},
		{"no selector selects nobody", func(c *server.Config) { c.PodSelector = nil }, "invalid --selector: '': regular mode with service discovery requires a non-empty selector"},
		{"blanks are no selector", func(c *server.Config) { c.PodSelector = []string{" "} }, "requires a non-empty selector"},
		{"pairs may be several values", func(c *server.Config) { c.PodSelector = []string{"app=x", "role=y"} }, ""},
		{"pairs may be one value with blanks", func(c *server.Config) { c.PodSelector = []string{"app=x role=y"} }, ""},
		{"pairs may be joined by commas", func(c *server.Config) { c.PodSelector = []string{"app=x,env=y"} }, ""},
		{"a label may be empty", func(c *server.Config) { c.PodSelector = []string{"app="} }, ""},
		{"a pair has a value", func(c *server.Config) { c.PodSelector = []string{"app"} }, "invalid --selector: 'app': invalid selector 'app': expected key=value"},
		{"a pair has a key", func(c *server.Config) { c.PodSelector = []string{"=x"} }, "invalid selector '=x'"},
		{"a key is that of a label", func(c *server.Config) { c.PodSelector = []string{"a/b/c=x"} }, "invalid selector 'a/b/c=x'"},
		{"a value is that of a label", func(c *server.Config) { c.PodSelector = []string{"app=x!"} }, "invalid selector 'app=x!'"},
		{"a key has one value", func(c *server.Config) { c.PodSelector = []string{"app=x", "app=y"} }, "app"},
		{"a key may be said twice", func(c *server.Config) { c.PodSelector = []string{"app=x", "app=x"} }, ""},
		{"port 0 is not a port", func(c *server.Config) { c.PodPort = 0 }, "invalid --service-discovery-port: '0': must be between 1 and 65535"},
		{"a port has 16 bits", func(c *server.Config) { c.PodPort = 65536 }, "invalid --service-discovery-port: '65536': must be between 1 and 65535"},
		{"several namespaces", func(c *server.Config) { c.PodNamespaces = []string{"a", "team-2"} }, ""},
		{"a namespace is no path", func(c *server.Config) { c.PodNamespaces = []string{"a/../b"} }, "invalid --service-discovery-namespace: 'a/../b': must be the name of a namespace"},
		{"a namespace has a name", func(c *server.Config) { c.PodNamespaces = []string{""} }, "invalid --service-discovery-namespace: ''"},
		{"a namespace is in lower case", func(c *server.Config) { c.PodNamespaces = []string{"Prod"} }, "invalid --service-discovery-namespace: 'Prod'"},
		{"a namespace does not end in a dash", func(c *server.Config) { c.PodNamespaces = []string{"prod-"} }, "invalid --service-discovery-namespace: 'prod-'"},
		{"models are those of namespaces, in any case", func(c *server.Config) { c.PodModel = "NAMESPACE" }, ""},
		{"models are those of a label", func(c *server.Config) { c.PodModel = "label:model" }, ""},
		{"models are those of an annotation", func(c *server.Config) { c.PodModel = "annotation:acme.com/model" }, ""},
		{"a label has a key", func(c *server.Config) { c.PodModel = "label:" }, "invalid --model-id-from: 'label:': label: requires a key name"},
		{"an annotation has a key", func(c *server.Config) { c.PodModel = "annotation:" }, "annotation: requires a key name"},
		{"a source has a name that is known", func(c *server.Config) { c.PodModel = "x" }, "Invalid model-id-from value 'x'. " + source},
		{"a source's name is in lower case", func(c *server.Config) { c.PodModel = "LABEL:x" }, "Invalid model-id-from value 'LABEL:x'. " + source},
		{"passes are some time apart", func(c *server.Config) { c.ResyncInterval = 0 }, "invalid --service-discovery-resync-secs: '0': must be at least 1"},
		{"an annotation has a name", func(c *server.Config) { c.WorkerPortsAnnotation = "" }, "invalid --worker-ports-annotation: '': must be the name of an annotation"},
		{"the bootstrap port's has no blank behind it", func(c *server.Config) { c.BootstrapPortAnnotation = "b " }, "invalid --bootstrap-port-annotation: 'b ': "},
		{"the connector's has no blank before it", func(c *server.Config) { c.KVConnectorAnnotation = " smg.ai/x" }, "invalid --kv-connector-annotation: ' smg.ai/x': "},
		{"the engine id's is not a blank", func(c *server.Config) { c.KVEngineIDAnnotation = " " }, "invalid --kv-engine-id-annotation: ' ': "},
		{"nothing of it is checked without discovery", func(c *server.Config) { c.ServiceDiscovery, c.PodSelector, c.PodPort = false, []string{"app"}, 0 }, ""},
		{"the provider is the switch by another name", func(c *server.Config) { c.ServiceDiscovery, c.Provider = false, new("kubernetes") }, ""},
		{"and may be said with it", func(c *server.Config) { c.Provider = new("kubernetes") }, ""},
		{"there are two providers", func(c *server.Config) { c.Provider = new("etcd") }, "invalid --discovery-provider: 'etcd': must be kubernetes or file"},
		{"a file takes the place of pods", func(c *server.Config) { c.ServiceDiscovery, c.Provider, c.DiscoveryFile = false, new("file"), "w.json" }, ""},
		{"there is one place to look", func(c *server.Config) { c.Provider, c.DiscoveryFile = new("file"), "w.json" }, "invalid --discovery-provider: 'file': does not go with --service-discovery, which is kubernetes"},
		{"a file has a name", func(c *server.Config) { c.ServiceDiscovery, c.Provider = false, new("file") }, "invalid --discovery-file: '': --discovery-provider file needs it"},
		{"a file is read at times", func(c *server.Config) {
			c.ServiceDiscovery, c.Provider, c.DiscoveryFile, c.CheckInterval = false, new("file"), "w.json", 0
		}, "invalid --discovery-check-interval-secs: '0': must be at least 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := discovering()
			tt.change(cfg)
			found := cfg.Validate()
			if tt.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0].String(), tt.want)
		})
	}
}

// discovery.md, section 3: what nothing reads is a warning. Section 14: two workers cannot be asked for at start.
func TestFlagsOfDiscoveryThatNothingReadsAreWarnedOf(t *testing.T) {
	tests := []struct {
		name   string
		change func(c *server.Config)
		want   []string
	}{
		{"discovery in use", func(*server.Config) {}, nil},
		{"two workers of power_of_two may come later", func(c *server.Config) { c.Policy = "power_of_two" }, nil},
		{"no discovery", func(c *server.Config) {
			c.ServiceDiscovery, c.PodPort, c.PodNamespaces, c.PodModel = false, 8000, []string{"a"}, "namespace"
		}, []string{"of no effect without --service-discovery: --selector, --service-discovery-port, --service-discovery-namespace, --model-id-from"}},
		{"no discovery, and other annotations", func(c *server.Config) {
			c.ServiceDiscovery, c.PodSelector, c.WorkerPortsAnnotation, c.KVEngineIDAnnotation = false, nil, "acme.com/ports", "acme.com/id"
		}, []string{"of no effect without --service-discovery: --worker-ports-annotation, --kv-engine-id-annotation"}},
		{"a file, and flags for pods", func(c *server.Config) {
			c.ServiceDiscovery, c.Provider, c.DiscoveryFile, c.Kubeconfig, c.ResyncInterval = false, new("file"), "w.json", "config", 5
		}, []string{"of no effect without --service-discovery: --selector, --service-discovery-kubeconfig, --service-discovery-resync-secs"}},
		{
			"pods, and flags for a file", func(c *server.Config) { c.DiscoveryFile, c.CheckInterval = "w.json", 5 },
			[]string{"of no effect without --discovery-provider file: --discovery-file, --discovery-check-interval-secs"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := discovering()
			tt.change(cfg)
			require.Equal(t, tt.want, cfg.Warnings())
		})
	}
}

// discovery.md, section 14; workers.md, section 8; DECISIONS 60
func TestDiscoveryServesSeveralModelsAndRemovesWhatFails(t *testing.T) {
	tests := []struct {
		name         string
		change       func(c *server.Config)
		igw, removes bool
	}{
		{"no discovery", func(c *server.Config) { c.ServiceDiscovery = false }, false, false},
		{"pods", func(*server.Config) {}, true, true},
		{"a file", func(c *server.Config) { c.ServiceDiscovery, c.Provider = false, new("file") }, true, true},
		{"pods whose workers stay", func(c *server.Config) { c.RemoveUnhealthyWorkers = new(false) }, true, false},
		{"no discovery, and workers that go", func(c *server.Config) { c.ServiceDiscovery, c.RemoveUnhealthyWorkers = false, new(true) }, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := discovering()
			tt.change(cfg)
			require.Equal(t, tt.igw, cfg.IGW())
			require.Equal(t, tt.igw, cfg.Mode() == "IGW (Inference Gateway)")
			require.Equal(t, tt.removes, cfg.RemovesUnhealthy(cfg.Discovers()))
		})
	}
}
