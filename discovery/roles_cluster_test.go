package discovery_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
)

// disaggregated finds the part of a pod in its label role; a pod that is both encode and prefill has one of those more.
var disaggregated = discovery.Selectors{
	Encode:  discovery.Selector{"app": "m", "encodes": "yes"},
	Prefill: discovery.Selector{"app": "m", "role": "prefill"},
	Decode:  discovery.Selector{"app": "m", "role": "decode"},
}

// withRole runs an engine and a pod that plays a role.
func (s *scene) withRole(t *testing.T, name, role string, annotations map[string]string) (clustertest.Pod, *clustertest.Engine) {
	t.Helper()
	e := clustertest.StartEngine(t)
	p := pod(name, e.IP)
	p.Labels["role"], p.Annotations = role, annotations
	return s.pods.Run(t, p), e
}

// discovery.md, section 21: D30, and the checks of sections 4, 7 and 14: parts by selector; what the annotations of a pod say is said
// of the parts that they are for.
func TestD30PodsHaveThePartOfTheirSelector(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.bare(t, discovery.Selectors{Prefill: disaggregated.Prefill, Decode: disaggregated.Decode}, often())
	said := map[string]string{
		discovery.DefaultBootstrapPortAnnotation: "8998", discovery.DefaultKVConnectorAnnotation: "MooncakeConnector",
		discovery.DefaultKVEngineIDAnnotation: "prefill-0",
	}
	p, pe := s.withRole(t, "p", "prefill", said)
	d, de := s.withRole(t, "d", "decode", map[string]string{discovery.DefaultBootstrapPortAnnotation: "8998"})
	s.withRole(t, "neither", "router", nil)
	want := map[string]string{pe.URL(): p.UID, de.URL(): d.UID}
	s.always(t, onlyAt(want))
	s.serving(t, want)

	prefill, decode := s.workers(t)[pe.URL()], s.workers(t)[de.URL()]
	require.Equal(t, []string{"prefill", "decode"}, []string{prefill.Type, decode.Type})
	require.Equal(t, 8998, *prefill.BootstrapPort)
	require.Nil(t, decode.BootstrapPort)
	require.Equal(t, []string{"MooncakeConnector", "prefill-0"}, []string{prefill.KVConnector, prefill.KVEngineID})
	require.Equal(t, "app=m,role in (decode,prefill)", s.proxy.Calls()[0].Query.Get("labelSelector"))

	s.pods.Label(t, "p", map[string]any{"role": "decode"})
	s.until(t, "the pod decodes", func() bool { return s.workers(t)[pe.URL()].Type == "decode" })
	s.serving(t, want)
	now := s.workers(t)
	require.NotEqual(t, prefill.ID, now[pe.URL()].ID)
	require.Nil(t, now[pe.URL()].BootstrapPort)
	require.Equal(t, decode.ID, now[de.URL()].ID)
}

// discovery.md, section 21: D31.
func TestD31APodThatIsEncodeAndPrefillIsEncode(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.bare(t, disaggregated, often())
	both, be := s.withRole(t, "both", "prefill", nil)
	s.serving(t, map[string]string{be.URL(): both.UID})
	require.Equal(t, "prefill", s.workers(t)[be.URL()].Type)
	s.pods.Label(t, "both", map[string]any{"encodes": "yes"})
	d, de := s.withRole(t, "d", "decode", nil)
	s.until(t, "the pod encodes", func() bool { return s.workers(t)[be.URL()].Type == "encode" })
	s.serving(t, map[string]string{be.URL(): both.UID, de.URL(): d.UID})
	require.Equal(t, "decode", s.workers(t)[de.URL()].Type)
}
