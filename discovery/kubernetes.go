package discovery

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// The annotations of a pod that say something of its workers, by default.
const (
	DefaultWorkerPortsAnnotation   = "smg.ai/worker-ports"      // a list of ports, one worker each
	DefaultBootstrapPortAnnotation = "sglang.ai/bootstrap-port" // one port, or one for each worker port
	DefaultKVConnectorAnnotation   = "smg.ai/kv-connector"      // one name for the whole pod
	DefaultKVEngineIDAnnotation    = "smg.ai/kv-engine-id"      // one id for each worker port
)

// KubernetesSettings say which pods become workers.
type KubernetesSettings struct {
	Selectors  Selectors
	Namespaces []string // watched, one list and watch each; none: all namespaces, with one list and watch for the whole cluster
	Port       uint16   // of pods without the ports annotation
	ModelFrom  ModelSource

	// Names of annotations; "" stands for the default above.
	WorkerPortsAnnotation, BootstrapPortAnnotation, KVConnectorAnnotation, KVEngineIDAnnotation string

	Kubeconfig string        // path; "": $KUBECONFIG, else the service account of the pod that this runs in, else ~/.kube/config
	Resync     time.Duration // of the periodic pass: a log line names it; 0 stands for 60 s

	Metrics *telemetry.DiscoveryMetrics // nil: lists that fail are not counted

	pace *pace // nil: defaultPace
}

// complete fills in what stands for a default.
func (s KubernetesSettings) complete() KubernetesSettings {
	s.WorkerPortsAnnotation = cmp.Or(s.WorkerPortsAnnotation, DefaultWorkerPortsAnnotation)
	s.BootstrapPortAnnotation = cmp.Or(s.BootstrapPortAnnotation, DefaultBootstrapPortAnnotation)
	s.KVConnectorAnnotation = cmp.Or(s.KVConnectorAnnotation, DefaultKVConnectorAnnotation)
	s.KVEngineIDAnnotation = cmp.Or(s.KVEngineIDAnnotation, DefaultKVEngineIDAnnotation)
	s.Resync = cmp.Or(s.Resync, time.Minute)
	s.pace = cmp.Or(s.pace, &defaultPace)
	s.Namespaces = distinct(s.Namespaces)
	if len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, allNamespaces) {
		s.Namespaces = []string{allNamespaces}
	}
	return s
}

// Kubernetes is a source of workers: the pods of a cluster that match a selector and are Ready. It lists them once and watches
// them from there on; an API server that is not there, or refuses, leaves what is wanted as it was.
type Kubernetes struct {
	settings KubernetesSettings
	log      *slog.Logger
	stores   []*store // one for each namespace
	synced   sync.Once
}

var _ Source = (*Kubernetes)(nil)

// NewKubernetes makes a source that contacts nothing before it is watched.
func NewKubernetes(s KubernetesSettings, log *slog.Logger) *Kubernetes {
	k := &Kubernetes{settings: s.complete(), log: log}
	for range k.settings.Namespaces {
		k.stores = append(k.stores, newStore())
	}
	return k
}

// Name is "kubernetes".
func (*Kubernetes) Name() string { return kubernetesSource }

// Wanted are the workers of all pods that are Ready; ok is true as soon as every namespace has been listed.
func (k *Kubernetes) Wanted() (wanted []Wanted, ok bool) {
	if len(k.stores) == 1 {
		return k.stores[0].wanted()
	}
	for _, s := range k.stores {
		part, ok := s.wanted()
		if !ok {
			return nil, false
		}
		wanted = append(wanted, part...)
	}
	return wanted, true
}

// Watch follows the pods until ctx ends. If no client can be made, because there are no credentials yet, it tries again every 30 s.
func (k *Kubernetes) Watch(ctx context.Context, w Watcher) error {
	k.log.Info("Starting K8s service discovery | " + k.settings.Selectors.describe())
	first, ok := k.connect(ctx)
	if !ok {
		return ctx.Err()
	}
	filter := k.settings.Selectors.filter()
	k.log.Info("Starting K8s worker watcher | selector: '" + filter + "'")
	if filter == "" {
		k.log.Warn("The selectors have no label in common: all pods of the scope are listed and watched")
	}
	var following sync.WaitGroup
	for i, ns := range k.settings.Namespaces {
		f := &follower{
			settings: &k.settings, pods: first.pods(ns, filter), store: k.stores[i], watcher: w, log: k.log,
			listed: k.listed,
		}
		following.Go(func() { f.run(ctx) })
	}
	following.Wait()
	return ctx.Err()
}

// connect makes a client, however long it takes; ok is false if ctx ended before.
func (k *Kubernetes) connect(ctx context.Context) (*client, bool) {
	told := ""
	for {
		c, err := newClient(k.settings.Kubeconfig)
		if err == nil {
			return c, true
		}
		// Tried every 30 s, told when there is something to tell.
		if told != err.Error() {
			told = err.Error()
			k.log.Error("Failed to start service discovery: " + told)
			k.log.Warn("Continuing without service discovery", "retry", k.settings.pace.reconnect)
		}
		if !sleep(ctx, k.settings.pace.reconnect) {
			return nil, false
		}
	}
}

// listed is told after each first list of a namespace.
func (k *Kubernetes) listed() {
	for _, s := range k.stores {
		if !s.listed() {
			return
		}
	}
	k.synced.Do(func() {
		k.log.Info("K8s worker store synced, reconciling on change and every " + seconds(k.settings.Resync))
	})
}
