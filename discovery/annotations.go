package discovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/smg-go/smg/workers"
)

// said is what a pod says of its workers. bootstrap and engines are as long as ports, or nil.
type said struct {
	ports     []uint16
	bootstrap []uint16
	connector string
	engines   []string
	model     string
}

// read reads the annotations of a pod that plays a part. What is wrong with one is left out and told in a sentence.
func (s *KubernetesSettings) read(p *pod, part workers.Type) (said, []string) {
	var warnings []string
	warn := func(format string, a ...any) {
		warnings = append(warnings, "Pod "+p.name+": "+fmt.Sprintf(format, a...))
	}
	out := said{ports: s.workerPorts(p, warn), model: s.ModelFrom.of(p)}
	if part == workers.Prefill || part == workers.Encode {
		out.bootstrap = s.bootstrapPorts(p, len(out.ports), warn)
	}
	out.connector = s.connector(p, warn)
	out.engines = s.engineIDs(p, len(out.ports), warn)
	return out, warnings
}

// warning takes a sentence about a pod, as [fmt.Sprintf] does.
type warning func(format string, a ...any)

func (s *KubernetesSettings) workerPorts(p *pod, warn warning) []uint16 {
	name := s.WorkerPortsAnnotation
	value, ok := p.annotations[name]
	if !ok {
		return []uint16{s.Port}
	}
	ports, ok := parsePorts(value)
	if !ok {
		warn("invalid %s annotation '%s', falling back to port %d", name, value, s.Port)
		return []uint16{s.Port}
	}
	return distinct(ports)
}

// bootstrapPorts are n ports, or none. They are not made distinct: engines on different hosts behind one pod may share a port.
func (s *KubernetesSettings) bootstrapPorts(p *pod, n int, warn warning) []uint16 {
	name := s.BootstrapPortAnnotation
	value, ok := p.annotations[name]
	if !ok {
		return nil
	}
	switch ports, ok := parsePorts(value); {
	case ok && len(ports) == 1:
		return slices.Repeat(ports, n)
	case ok && len(ports) == n:
		return ports
	}
	warn("%s annotation '%s' does not align with %d worker port(s), ignoring", name, value, n)
	return nil
}

func (s *KubernetesSettings) connector(p *pod, warn warning) string {
	name := s.KVConnectorAnnotation
	connector := strings.TrimSpace(p.annotations[name])
	switch connector {
	case "", "NixlConnector", "MooncakeConnector":
	default:
		warn("%s annotation '%s' names a connector that is not known, passing it through", name, connector)
	}
	return connector
}

// engineIDs are n ids that differ, or none: each engine has an id of its own, so one is never given to several.
func (s *KubernetesSettings) engineIDs(p *pod, n int, warn warning) []string {
	name := s.KVEngineIDAnnotation
	value, ok := p.annotations[name]
	if !ok {
		return nil
	}
	ids := strings.Split(value, ",")
	for i := range ids {
		ids[i] = strings.TrimSpace(ids[i])
	}
	if len(ids) != n || slices.Contains(ids, "") || len(distinct(ids)) != n {
		warn("%s annotation '%s' does not align with %d worker port(s), ignoring", name, value, n)
		return nil
	}
	return ids
}

// parsePorts reads ports that are separated by commas, with blanks around them or not. One that is none makes the whole invalid.
func parsePorts(text string) (ports []uint16, ok bool) {
	for item := range strings.SplitSeq(text, ",") {
		port, err := strconv.ParseUint(strings.TrimSpace(item), 10, 16)
		if err != nil || port == 0 {
			return nil, false
		}
		ports = append(ports, uint16(port))
	}
	return ports, true
}

// distinct drops what came before. The first of each stays where it is.
func distinct[T comparable](all []T) []T {
	seen := make(map[T]struct{}, len(all))
	return slices.DeleteFunc(slices.Clone(all), func(v T) bool {
		_, twice := seen[v]
		seen[v] = struct{}{}
		return twice
	})
}
