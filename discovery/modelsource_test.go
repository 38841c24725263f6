package discovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// discovery.md, sections 3 and 6
func TestWhereAPodNamesItsModel(t *testing.T) {
	p := &pod{namespace: "llama-prod", labels: map[string]string{"model": "llama"}, annotations: map[string]string{"m": "qwen", "namespace": "x"}}
	tests := []struct{ name, source, model, err string }{
		{"nothing leaves it to the engine", "", "", ""},
		{"the namespace", "namespace", "llama-prod", ""},
		{"the namespace, in any case", "NAMESPACE", "llama-prod", ""},
		{"a label", "label:model", "llama", ""},
		{"a label that is not there leaves it to the engine", "label:other", "", ""},
		{"an annotation", "annotation:m", "qwen", ""},
		{"a label without a key", "label:", "", "label: requires a key name"},
		{"an annotation without a key", "annotation:", "", "annotation: requires a key name"},
		{"prefixes have one case", "LABEL:x", "", "Invalid model-id-from value 'LABEL:x'. Expected: namespace, label:<key>, or annotation:<key>"},
		{"anything else", "x", "", "Invalid model-id-from value 'x'. Expected: namespace, label:<key>, or annotation:<key>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source, err := ParseModelSource(tt.source)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.model, source.of(p))
		})
	}
}
