package discovery

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// roles are settings for pods of role=encode, prefill and decode.
func byRole() KubernetesSettings {
	return KubernetesSettings{Port: 8000, Selectors: Selectors{
		Encode: Selector{"role": "encode"}, Prefill: Selector{"role": "prefill"}, Decode: Selector{"role": "decode"},
	}}.complete()
}

// discovery.md, section 7: smg.ai/worker-ports
func TestAPodHasAWorkerForEachPort(t *testing.T) {
	const fallback = "Pod p: invalid smg.ai/worker-ports annotation '%s', falling back to port 8000"
	tests := []struct {
		name, value string
		ports       []uint16
		warned      bool
	}{
		{"in the order in which they are named", "8000,8001,8002,8003", []uint16{8000, 8001, 8002, 8003}, false},
		{"twice is once, where it was first", "8081,8080,8081", []uint16{8081, 8080}, false},
		{"blanks do not count", " 9000 , 9001 ", []uint16{9000, 9001}, false},
		{"the highest port is one", "65535", []uint16{65535}, false},
		{"one word makes the whole invalid", "8080,nope", []uint16{8000}, true},
		{"0 is no port", "0", []uint16{8000}, true},
		{"nothing is no port", "", []uint16{8000}, true},
		{"70000 is no port", "70000", []uint16{8000}, true},
		{"nothing behind a comma is no port", "8080,", []uint16{8000}, true},
		{"a port has no sign", "+8080", []uint16{8000}, true},
		{"a port is decimal", "0x50", []uint16{8000}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, p := regular(), podOf(readyPod("p", "10.0.0.1", annotation("smg.ai/worker-ports", tt.value)))
			wanted, warnings := s.wanted(&p)
			var want []string
			for _, port := range tt.ports {
				want = append(want, fmt.Sprintf("10.0.0.1:%d", port))
			}
			require.Equal(t, want, addresses(wanted))
			if tt.warned {
				require.Equal(t, []string{fmt.Sprintf(fallback, tt.value)}, warnings)
			} else {
				require.Empty(t, warnings)
			}
		})
	}
}

// discovery.md, section 7: sglang.ai/bootstrap-port
func TestBootstrapPortsAlignWithWorkerPorts(t *testing.T) {
	const one, two = "8000", "8080,8081"
	tests := []struct {
		name, role, ports, value string
		want                     string // of all workers
		warned                   bool
	}{
		{"one port is that of every worker", "prefill", two, "9080", "9080 9080", false},
		{"as many as there are workers go position by position", "prefill", two, "9080,9081", "9080 9081", false},
		{"the same one may come twice", "prefill", two, "9080,9080", "9080 9080", false},
		{"an encode pod has them too", "encode", one, "8998", "8998", false},
		{"a decode pod has none", "decode", one, "8998", "-", false},
		{"any other count is none", "prefill", two, "9080,9081,9082", "- -", true},
		{"what is no port is none", "prefill", one, "invalid", "-", true},
		{"nothing is none", "prefill", one, "", "-", true},
		{"worker ports are counted after those that came twice are dropped", "prefill", "8080,8080", "9080,9081", "-", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := byRole()
			p := podOf(readyPod("p", "10.0.0.1", label("role", tt.role), annotation("smg.ai/worker-ports", tt.ports), annotation("sglang.ai/bootstrap-port", tt.value)))
			wanted, warnings := s.wanted(&p)
			require.Equal(t, tt.want, each(wanted, func(w Wanted) string {
				if w.Spec.BootstrapPort == nil {
					return "-"
				}
				return fmt.Sprint(*w.Spec.BootstrapPort)
			}))
			require.Equal(t, tt.warned, len(warnings) == 1)
			if tt.warned {
				require.Contains(t, warnings[0], fmt.Sprintf("does not align with %d worker port(s), ignoring", len(wanted)))
			}
		})
	}
}

func each(wanted []Wanted, say func(Wanted) string) string {
	text := ""
	for i, w := range wanted {
		if i > 0 {
			text += " "
		}
		text += say(w)
	}
	return text
}

// discovery.md, section 7: smg.ai/kv-connector and smg.ai/kv-engine-id
func TestKVAnnotations(t *testing.T) {
	const two = "8080,8081"
	tests := []struct {
		name, ports, connector, engines string
		want                            string // connector/engine of all workers
		warned                          string // part of the only warning
	}{
		{"one id for each port", two, "NixlConnector", "e0,e1", "NixlConnector/e0 NixlConnector/e1", ""},
		{"blanks do not count", "8080", " MooncakeConnector ", " prefill-0 ", "MooncakeConnector/prefill-0", ""},
		{"one id is not given to several, the connector stays", two, "NixlConnector", "shared", "NixlConnector/ NixlConnector/", "'shared' does not align with 2"},
		{"ids differ", two, "NixlConnector", "shared,shared", "NixlConnector/ NixlConnector/", "'shared,shared' does not align with 2"},
		{"no id is empty", two, "NixlConnector", "e0,", "NixlConnector/ NixlConnector/", "'e0,' does not align with 2"},
		{"an empty connector is none", "8080", " ", "e0", "/e0", ""},
		{"a connector that nobody knows is passed through", "8080", "MyConnector", "e0", "MyConnector/e0", "'MyConnector' names a connector that is not known"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := byRole()
			p := podOf(readyPod("p", "10.0.0.1", label("role", "prefill"), annotation("smg.ai/worker-ports", tt.ports),
				annotation("smg.ai/kv-connector", tt.connector), annotation("smg.ai/kv-engine-id", tt.engines)))
			wanted, warnings := s.wanted(&p)
			require.Equal(t, tt.want, each(wanted, func(w Wanted) string { return w.Spec.KVConnector + "/" + w.Spec.KVEngineID }))
			require.Equal(t, tt.warned != "", len(warnings) == 1)
			require.Contains(t, first(warnings), tt.warned)
		})
	}
}

// discovery.md, section 14: the last Check line
func TestAPrefillPodOfMooncake(t *testing.T) {
	s := byRole()
	p := podOf(readyPod("p", "10.0.0.1", label("role", "prefill"), annotation("sglang.ai/bootstrap-port", "8998"),
		annotation("smg.ai/kv-connector", "MooncakeConnector"), annotation("smg.ai/kv-engine-id", "prefill-0")))
	wanted, warnings := s.wanted(&p)
	require.Empty(t, warnings)
	spec := wanted[0].Spec
	require.Equal(t, workers.Prefill, spec.WorkerType)
	require.EqualValues(t, 8998, *spec.BootstrapPort)
	require.Equal(t, "MooncakeConnector", spec.KVConnector)
	require.Equal(t, "prefill-0", spec.KVEngineID)
}

// cli.md, section 5.6
func TestAnnotationsHaveOtherNamesIfSo(t *testing.T) {
	s := byRole()
	s.WorkerPortsAnnotation, s.BootstrapPortAnnotation, s.KVConnectorAnnotation, s.KVEngineIDAnnotation = "a/p", "a/b", "a/c", "a/e"
	p := podOf(readyPod("p", "10.0.0.1", label("role", "prefill"), annotation("a/p", "1"), annotation("a/b", "2"),
		annotation("a/c", "NixlConnector"), annotation("a/e", "e0"), annotation("smg.ai/worker-ports", "3")))
	wanted, _ := s.wanted(&p)
	require.Len(t, wanted, 1)
	require.Equal(t, "10.0.0.1:1", wanted[0].Address)
	require.EqualValues(t, 2, *wanted[0].Spec.BootstrapPort)
	require.Equal(t, "NixlConnector", wanted[0].Spec.KVConnector)
	require.Equal(t, "e0", wanted[0].Spec.KVEngineID)
}

// Whatever a pod says, it has at least one worker, no address twice, and lists that fit.
func FuzzAnnotations(f *testing.F) {
	f.Add("8080,8081", "9080", "NixlConnector", "e0,e1")
	f.Add("8080,nope", "", " ", "e0,")
	f.Add(",", "70000,1", "x", ",")
	f.Fuzz(func(t *testing.T, ports, bootstrap, connector, engines string) {
		s := byRole()
		p := podOf(readyPod("p", "10.0.0.1", label("role", "prefill"), annotation("smg.ai/worker-ports", ports), annotation("sglang.ai/bootstrap-port", bootstrap),
			annotation("smg.ai/kv-connector", connector), annotation("smg.ai/kv-engine-id", engines)))
		wanted, _ := s.wanted(&p)
		require.NotEmpty(t, wanted)
		seen, ids := map[string]bool{}, map[string]bool{}
		for _, w := range wanted {
			require.False(t, seen[w.Address], "%s twice", w.Address)
			seen[w.Address] = true
			if id := w.Spec.KVEngineID; id != "" {
				require.False(t, ids[id], "engine id %q twice", id)
				ids[id] = true
			}
			_, err := workers.ParseEndpoint("http://" + w.Address)
			require.NoError(t, err)
		}
	})
}
