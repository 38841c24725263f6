package discovery_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery"
)

// discovery.md, section 21: D27: an annotation that is wrong costs what it would have said, and one line of the log.
func TestD27AnAnnotationThatIsWrongIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.bare(t, discovery.Selectors{Prefill: disaggregated.Prefill}, often())
	portsOf := map[string]string{discovery.DefaultWorkerPortsAnnotation: "8080,nope"}
	bad, be := s.withRole(t, "ports", "prefill", portsOf)
	odd, oe := s.withRole(t, "bootstrap", "prefill", map[string]string{discovery.DefaultBootstrapPortAnnotation: "9080,9081"})
	good, ge := s.withRole(t, "good", "prefill", map[string]string{discovery.DefaultBootstrapPortAnnotation: "9080"})
	s.serving(t, map[string]string{be.URL(): bad.UID, oe.URL(): odd.UID, ge.URL(): good.UID})
	for turn := range 5 {
		s.pods.Label(t, "ports", map[string]any{"turn": fmt.Sprint(turn)})
		s.pods.Label(t, "bootstrap", map[string]any{"turn": fmt.Sprint(turn)})
		s.passes(t, 1)
	}
	all := s.workers(t)
	require.Nil(t, all[oe.URL()].BootstrapPort)
	require.Equal(t, 9080, *all[ge.URL()].BootstrapPort)
	require.Equal(t, 1, s.log.count("Pod ports: invalid smg.ai/worker-ports annotation '8080,nope', falling back to port 18000"))
	require.Equal(t, 1, s.log.count("does not align with 1 worker port(s), ignoring"))
	require.Equal(t, 2, s.log.count("level=WARN"))
}

// discovery.md, section 21: D32.
func TestD32WhatAPodSaysOfItsKVCacheIsReadWhenItIsRegistered(t *testing.T) {
	t.Parallel()
	s := started(t)
	a, b := pair(t)
	says := func(connector, ids string) map[string]string {
		said := ports(a, b)
		said[discovery.DefaultKVConnectorAnnotation], said[discovery.DefaultKVEngineIDAnnotation] = connector, ids
		return said
	}
	heard := func() []string {
		all := s.workers(t)
		return []string{all[a.URL()].KVConnector, all[a.URL()].KVEngineID, all[b.URL()].KVConnector, all[b.URL()].KVEngineID}
	}
	p := pod("p1", a.IP)
	p.Annotations = says("NixlConnector", "e0,e1")
	p = s.pods.Run(t, p)
	s.serving(t, map[string]string{a.URL(): p.UID, b.URL(): p.UID})
	first := []string{"NixlConnector", "e0", "NixlConnector", "e1"}
	require.Equal(t, first, heard())

	before := s.workers(t)
	s.pods.Annotate(t, "p1", map[string]any{discovery.DefaultKVConnectorAnnotation: "x", discovery.DefaultKVEngineIDAnnotation: "f0,f1"})
	s.passes(t, 3)
	require.Empty(t, unchanged(before)(s.workers(t)))
	require.Equal(t, first, heard())

	s.pods.Delete(t, "p1")
	young := pod("p1", a.IP)
	young.Annotations = says("MooncakeConnector", "g0,g1")
	young = s.pods.Run(t, young)
	s.serving(t, map[string]string{a.URL(): young.UID, b.URL(): young.UID})
	require.Equal(t, []string{"MooncakeConnector", "g0", "MooncakeConnector", "g1"}, heard())
}
