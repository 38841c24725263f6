package server

import (
	"fmt"
	"strings"

	"github.com/smg-go/smg/discovery"
)

// DiscoveryConfig says where workers are found that nobody names.
type DiscoveryConfig struct {
	ServiceDiscovery bool    `name:"service-discovery" help:"Make the Kubernetes pods that match --selector and are Ready workers, and follow them. Several models are served then, as with --enable-igw, and workers that fail for long are removed."`
	Provider         *string `name:"discovery-provider" placeholder:"PROVIDER" enum:"kubernetes,file" help:"Where workers are found: ${enum}; kubernetes is --service-discovery by another name, and a file does for it what pods do. Unset: nowhere, but with --service-discovery."`

	PodSelector    []string `name:"selector" type:"multi" placeholder:"LABEL=VALUE ..." help:"Labels that a pod must have to be a worker, all of them. Required with --service-discovery."`
	PodPort        int      `name:"service-discovery-port" default:"80" placeholder:"PORT" help:"Port, 1 to 65535, of the engine in a pod whose annotations name none."`
	PodNamespaces  []string `name:"service-discovery-namespace" type:"names" placeholder:"NAMESPACE ..." help:"Namespaces whose pods are watched, with commas or blanks between them: a Role in each of them is all that is needed. Unset: all, which needs a ClusterRole."`
	PodModel       string   `name:"model-id-from" placeholder:"SOURCE" help:"Where the model of a pod's workers is named: namespace, label:KEY or annotation:KEY. Unset, and for a pod without it: what the engine says."`
	Kubeconfig     string   `name:"service-discovery-kubeconfig" placeholder:"FILE" help:"Credentials for the API server. Unset: the file of KUBECONFIG, else the service account of the pod that this runs in, else ~/.kube/config."`
	ResyncInterval Seconds  `name:"service-discovery-resync-secs" default:"60" help:"Seconds (at least 1) after which what is known of pods is compared with the workers, though nothing has changed. The API server is not asked for it."`

	WorkerPortsAnnotation   string `name:"worker-ports-annotation" default:"smg.ai/worker-ports" placeholder:"NAME" help:"Annotation with the ports of a pod's engines, commas between them."`
	BootstrapPortAnnotation string `name:"bootstrap-port-annotation" default:"sglang.ai/bootstrap-port" placeholder:"NAME" help:"Annotation with the bootstrap port of a pod, or one for each of its engines."`
	KVConnectorAnnotation   string `name:"kv-connector-annotation" default:"smg.ai/kv-connector" placeholder:"NAME" help:"Annotation with the name of the KV connector of a pod's engines."`
	KVEngineIDAnnotation    string `name:"kv-engine-id-annotation" default:"smg.ai/kv-engine-id" placeholder:"NAME" help:"Annotation with the KV engine id of each engine of a pod, commas between them."`

	DiscoveryFile string  `name:"discovery-file" placeholder:"FILE" help:"File, JSON or YAML, that lists the workers for --discovery-provider file. It may come later, and what changes in it is heeded at once."`
	CheckInterval Seconds `name:"discovery-check-interval-secs" default:"30" help:"Seconds (at least 1) after which --discovery-file is read again, though it seems the same."`
}

// The providers of discovery.
const (
	fromPods = "kubernetes"
	fromFile = "file"
)

func defaultDiscovery() DiscoveryConfig {
	return DiscoveryConfig{
		PodPort: 80, ResyncInterval: 60, CheckInterval: 30,
		WorkerPortsAnnotation: discovery.DefaultWorkerPortsAnnotation, BootstrapPortAnnotation: discovery.DefaultBootstrapPortAnnotation,
		KVConnectorAnnotation: discovery.DefaultKVConnectorAnnotation, KVEngineIDAnnotation: discovery.DefaultKVEngineIDAnnotation,
	}
}

// DiscoversFrom is where workers are found: "kubernetes", "file", or "" if they are named only.
func (c *DiscoveryConfig) DiscoversFrom() string {
	switch {
	case c.Provider != nil:
		return *c.Provider
	case c.ServiceDiscovery:
		return fromPods
	}
	return ""
}

// Discovers tells whether workers are found that nobody names. They come and go, and with them the models: see [Config.IGW].
func (c *DiscoveryConfig) Discovers() bool { return c.DiscoversFrom() != "" }

func (c *DiscoveryConfig) check(found *violations) {
	switch from := c.DiscoversFrom(); from {
	case "":
	case fromPods:
		c.checkPods(found)
	case fromFile:
		if c.ServiceDiscovery {
			found.add("--discovery-provider", from, "does not go with --service-discovery, which is kubernetes")
		}
		if c.DiscoveryFile == "" {
			found.add("--discovery-file", "", "--discovery-provider file needs it")
		}
		found.seconds("--discovery-check-interval-secs", c.CheckInterval, 1)
	default:
		found.add("--discovery-provider", from, "must be kubernetes or file")
	}
}

func (c *DiscoveryConfig) checkPods(found *violations) {
	selector, err := discovery.ParseSelector(c.PodSelector)
	switch {
	case err != nil:
		found.add("--selector", strings.Join(c.PodSelector, " "), err.Error())
	case len(selector) == 0:
		found.add("--selector", "", "regular mode with service discovery requires a non-empty selector")
	}
	found.whole("--service-discovery-port", int64(c.PodPort), 1, maxPort)
	for _, namespace := range c.PodNamespaces {
		if !validNamespace(namespace) {
			found.add("--service-discovery-namespace", namespace, "must be the name of a namespace: at most 63 of a-z, 0-9 and -, the first and the last no -")
		}
	}
	if _, err := discovery.ParseModelSource(c.PodModel); err != nil {
		found.add("--model-id-from", c.PodModel, err.Error())
	}
	found.seconds("--service-discovery-resync-secs", c.ResyncInterval, 1)
	for _, a := range c.annotations() {
		if a.name == "" || a.name != strings.TrimSpace(a.name) {
			found.add(a.flag, a.name, "must be the name of an annotation, without blanks around it")
		}
	}
}

type annotationFlag struct{ flag, name string }

func (c *DiscoveryConfig) annotations() []annotationFlag {
	return []annotationFlag{
		{"--worker-ports-annotation", c.WorkerPortsAnnotation},
		{"--bootstrap-port-annotation", c.BootstrapPortAnnotation},
		{"--kv-connector-annotation", c.KVConnectorAnnotation},
		{"--kv-engine-id-annotation", c.KVEngineIDAnnotation},
	}
}

// validNamespace knows the names of namespaces: labels of DNS.
func validNamespace(name string) bool {
	return name != "" && len(name) <= 63 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		name[0] != '-' && name[len(name)-1] != '-'
}

// idle is the warnings about flags of discovery that nothing reads.
func (c *DiscoveryConfig) idle() (warnings []string) {
	pods, manifest := c.changedFlags()
	from := c.DiscoversFrom()
	if len(pods) > 0 && from != fromPods {
		warnings = append(warnings, fmt.Sprintf("of no effect without --service-discovery: %s", strings.Join(pods, ", ")))
	}
	if len(manifest) > 0 && from != fromFile {
		warnings = append(warnings, fmt.Sprintf("of no effect without --discovery-provider file: %s", strings.Join(manifest, ", ")))
	}
	return warnings
}

// changedFlags are the flags that are not at their defaults: those for pods, and those for a file.
func (c *DiscoveryConfig) changedFlags() (pods, manifest []string) {
	standard := defaultDiscovery()
	note := func(flags *[]string, flag string, changed bool) {
		if changed {
			*flags = append(*flags, flag)
		}
	}
	note(&pods, "--selector", len(c.PodSelector) > 0)
	note(&pods, "--service-discovery-port", c.PodPort != standard.PodPort)
	note(&pods, "--service-discovery-namespace", len(c.PodNamespaces) > 0)
	note(&pods, "--model-id-from", c.PodModel != "")
	note(&pods, "--service-discovery-kubeconfig", c.Kubeconfig != "")
	note(&pods, "--service-discovery-resync-secs", c.ResyncInterval != standard.ResyncInterval)
	for i, a := range c.annotations() {
		note(&pods, a.flag, a != standard.annotations()[i])
	}
	note(&manifest, "--discovery-file", c.DiscoveryFile != "")
	note(&manifest, "--discovery-check-interval-secs", c.CheckInterval != standard.CheckInterval)
	return pods, manifest
}
