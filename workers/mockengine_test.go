package workers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/workers"
)

// workers.md sections 12 to 15: the engines of the other tests of this module are registered as what they pretend to be
func TestMockEnginesAreEnrolled(t *testing.T) {
	for kind, want := range map[engine.Kind]workers.Runtime{engine.SGLang: workers.SGLang, engine.VLLM: workers.VLLM} {
		t.Run(string(kind), func(t *testing.T) {
			mock := engine.Start(t, engine.Config{Engine: kind, Models: []string{"m9"}, APIKey: "k1"})
			registry := workers.NewRegistry()
			e := workers.NewEnroller(registry, workers.DefaultSettings(), workers.DefaultStartup(), nil)
			defer e.Close()
			spec := workers.NewSpec(mock.URL)
			spec.APIKey = "k1"
			w, err := e.Add(t.Context(), spec)
			require.NoError(t, err)
			require.Equal(t, want, w.Spec().RuntimeType)
			require.Equal(t, "m9", w.Model())
			require.True(t, w.Ready())
			require.Equal(t, 1, registry.Pool("m9", workers.Regular, workers.HTTP).Len())
		})
	}
}
