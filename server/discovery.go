package server

import (
	"fmt"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// Pods are the settings of discovery in Kubernetes. They are those of a valid configuration, whether or not it is turned on.
func (c *DiscoveryConfig) Pods() discovery.KubernetesSettings {
	selector, _ := discovery.ParseSelector(c.PodSelector) // validated
	model, _ := discovery.ParseModelSource(c.PodModel)    // validated
	return discovery.KubernetesSettings{
		Selectors:               discovery.Selectors{Worker: selector},
		Namespaces:              c.PodNamespaces,
		Port:                    uint16(c.PodPort), // validated
		ModelFrom:               model,
		WorkerPortsAnnotation:   c.WorkerPortsAnnotation,
		BootstrapPortAnnotation: c.BootstrapPortAnnotation,
		KVConnectorAnnotation:   c.KVConnectorAnnotation,
		KVEngineIDAnnotation:    c.KVEngineIDAnnotation,
		Kubeconfig:              c.Kubeconfig,
		Resync:                  c.ResyncInterval.Duration(),
	}
}

// discovering makes what finds workers, if the configuration asks for it. Nothing is contacted or read before it runs.
func (g *gateway) discovering() {
	cfg, log := g.cfg, telemetry.WithTarget(g.log, "smg::service_discovery")
	settings := discovery.DefaultSettings()
	settings.APIKey, settings.Metrics, settings.Log = cfg.workerKey(), g.metrics.Discovery, log
	var source discovery.Source
	switch cfg.DiscoversFrom() {
	case fromPods:
		settings.Every = cfg.ResyncInterval.Duration()
		pods := cfg.Pods()
		pods.Metrics = g.metrics.Discovery
		source = discovery.NewKubernetes(pods, log)
	case fromFile:
		settings.Every = cfg.CheckInterval.Duration()
		file := discovery.DefaultFileSettings()
		file.Check, file.Metrics, file.Log = cfg.CheckInterval.Duration(), g.metrics.Discovery, log
		source = discovery.NewFile(cfg.DiscoveryFile, file)
	default:
		return
	}
	g.discovery = discovery.New(source, g.registry, g.enroller, settings)
}

// fleet is the background work that fills the registry and keeps it true.
func (g *gateway) fleet() []pipeline.Dependency {
	fleet := []pipeline.Dependency{g.startup, g.health}
	if g.discovery != nil {
		fleet = append(fleet, g.discovery)
	}
	return fleet
}

// openDiscovery says what discovery brings with it, and refuses to go on without credentials if nobody else names workers: a
// gateway that can never have one is better found at its start. With other workers it serves those, and discovery tries again. That
// the API server does not answer is no reason to refuse: it may come back.
func (g *gateway) openDiscovery() error {
	cfg := g.cfg
	if !cfg.Discovers() {
		return nil
	}
	if !cfg.EnableIGW {
		g.log.Info("IGW mode is on, because of service discovery")
	}
	if cfg.DiscoversFrom() != fromPods || len(cfg.WorkerURLs) > 0 {
		return nil
	}
	if err := discovery.CheckCredentials(cfg.Kubeconfig); err != nil {
		return fmt.Errorf("failed to start service discovery, and no worker is named otherwise: %w", err)
	}
	return nil
}
