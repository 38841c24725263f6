package workers

import "maps"

// Labels with a meaning of their own.
const (
	labelKVConnector = "kv_connector"
	labelKVRole      = "kv_role"
	labelKVEngineID  = "kv_engine_id"
)

func labelsOf(o *object) map[string]string {
	given, _ := read(o, "labels", "an object of strings", func(m map[string]*string) bool {
		for _, v := range m {
			if v == nil {
				return false
			}
		}
		return true
	})
	if len(given) == 0 {
		return nil
	}
	labels := make(map[string]string, len(given))
	for k, v := range given {
		labels[k] = *v
	}
	return labels
}

// underlay puts what an engine says of itself under the labels that the user gave.
func (s *Spec) underlay(engine map[string]string) {
	merged := maps.Clone(engine)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, s.Labels)
	s.Labels = merged
}

// complete brings the spec into the form that a worker keeps: KV labels moved into their fields, a card made or completed from
// labels. The spec's maps and lists are its own.
func (s *Spec) complete() {
	s.takeLabel(&s.KVConnector, labelKVConnector)
	s.takeLabel(&s.KVRole, labelKVRole)
	s.takeLabel(&s.KVEngineID, labelKVEngineID)
	derived := len(s.Models) == 0
	if id := s.modelID(); derived && id != "" {
		s.Models = []Card{{ID: id}}
	}
	for i := range s.Models {
		s.Models[i].complete(s.Labels, derived)
	}
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
}

// takeLabel moves a label into the field of the same name; a field that has a value keeps it.
func (s *Spec) takeLabel(field *string, label string) {
	if *field == "" {
		*field = s.Labels[label]
	}
	delete(s.Labels, label)
}
