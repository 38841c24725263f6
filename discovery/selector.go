package discovery

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Selector is a set of labels that a pod must have, all of them, with exactly these values. An empty one matches no pod.
type Selector map[string]string

// ParseSelector reads a selector from items as they are typed: `app=sglang`, and also several pairs in one item, separated by
// blanks or commas. A pair is split at its first `=`; `key=` stands for a label that is there with an empty value. The error names
// the pair that is none, or that says something else of a key than one before it.
func ParseSelector(items []string) (Selector, error) {
	s := Selector{}
	for _, item := range items {
		for pair := range strings.FieldsFuncSeq(item, betweenPairs) {
			if err := s.add(pair); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func betweenPairs(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' || r == '\r' }

func (s Selector) add(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok {
		return fmt.Errorf("invalid selector '%s': expected key=value", pair)
	}
	if key == "" {
		return fmt.Errorf("invalid selector '%s': expected key=value, the key is empty", pair)
	}
	if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
		return fmt.Errorf("invalid selector '%s': expected key=value, and '%s' is no label key: %s", pair, key, wrong[0])
	}
	if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
		return fmt.Errorf("invalid selector '%s': expected key=value, and '%s' is no label value: %s", pair, value, wrong[0])
	}
	if old, ok := s[key]; ok && old != value {
		return fmt.Errorf("invalid selector '%s': '%s=%s' was given before, and no pod has both", pair, key, old)
	}
	s[key] = value
	return nil
}

// String is the selector as the API server takes it, pairs sorted by key: k1=v1,k2=v2. That of an empty one is "".
func (s Selector) String() string {
	pairs := make([]string, 0, len(s))
	for _, k := range s.keys() {
		pairs = append(pairs, k+"="+s[k])
	}
	return strings.Join(pairs, ",")
}

// Matches reports whether labels have every pair of the selector. An empty selector matches nothing.
func (s Selector) Matches(labels map[string]string) bool {
	for k, v := range s {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return len(s) > 0
}

// Missing says of each pair that labels lack what is there instead, sorted by key, in words.
func (s Selector) Missing(labels map[string]string) []string {
	var missing []string
	for _, k := range s.keys() {
		switch got, ok := labels[k]; {
		case !ok:
			missing = append(missing, fmt.Sprintf("it has no label %s (wanted: '%s')", k, s[k]))
		case got != s[k]:
			missing = append(missing, fmt.Sprintf("its label %s is '%s' (wanted: '%s')", k, got, s[k]))
		}
	}
	return missing
}

func (s Selector) keys() []string { return slices.Sorted(maps.Keys(s)) }
