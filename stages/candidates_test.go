package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// named is a worker of a model and a type, of which nothing is asked.
func named(t testing.TB, url, model string, typ workers.Type) *workers.Worker {
	t.Helper()
	spec := workers.NewSpec(url)
	spec.WorkerType = typ
	if model != "" {
		spec.Labels = map[string]string{"model_id": model}
	}
	w, err := workers.New(spec, workers.DefaultSettings())
	require.NoError(t, err)
	return w
}

// http-dataplane.md, section 5.2; DECISIONS 21: 404 or 503, before anybody's state is looked at.
func TestCandidatesAreTheWorkersOfTheModel(t *testing.T) {
	a, b := named(t, "http://127.0.0.1:1", "a", workers.Regular), named(t, "http://127.0.0.1:2", "b", workers.Regular)
	prefill := named(t, "http://127.0.0.1:3", "p", workers.Prefill)
	grpc := named(t, "grpc://127.0.0.1:4", "g", workers.Regular)
	b.SetStatus(workers.Failed)
	tests := []struct {
		name, model string
		registered  []*workers.Worker
		want        []*workers.Worker
		code        string
	}{
		{"the workers of the model", "a", []*workers.Worker{a, b}, []*workers.Worker{a}, ""},
		{"whatever their state: that is for others to see", "b", []*workers.Worker{a, b}, []*workers.Worker{b}, ""},
		{"workers of every model, if none is named", "", []*workers.Worker{a, b}, []*workers.Worker{a, b}, ""},
		{"not those of a leg, nor those that speak otherwise", "", []*workers.Worker{prefill, grpc, a}, []*workers.Worker{a}, ""},
		{"nobody serves the model", "c", []*workers.Worker{a, b}, nil, "model_not_found"},
		{"only a leg serves the model", "p", []*workers.Worker{a, prefill}, nil, "model_not_found"},
		{"nobody speaks HTTP", "", []*workers.Worker{grpc}, nil, "model_not_found"},
		{"nobody is there at all", "a", nil, nil, "no_available_workers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := workers.NewRegistry(tt.registered...)
			t.Cleanup(func() {
				for _, w := range tt.registered {
					registry.Remove(w)
				}
			})
			c := chat()
			x := &pipeline.Exchange{Client: c, Model: tt.model, Asked: tt.model}
			err := assembled(t, given(pipeline.Model), Candidates(registry), last(200, nil)).Run(x)
			require.Equal(t, tt.code, c.code())
			require.Equal(t, tt.want, x.Candidates.Members())
			require.Equal(t, tt.want, x.Pool.Members())
			switch tt.code {
			case "":
				require.NoError(t, err)
			case "model_not_found":
				require.Equal(t, 404, c.status)
				require.True(t, pipeline.AsError(err).Terminal, "no retry helps")
			default:
				require.Equal(t, 503, c.status)
				require.False(t, pipeline.AsError(err).Terminal, "one may come")
				require.Equal(t, "1", c.head.Get("Retry-After"))
			}
		})
	}
}

// http-dataplane.md, section 5.2: the message, in which the client finds the name that it used.
func TestCandidatesNameTheModelThatWasAskedFor(t *testing.T) {
	registry := workers.NewRegistry(named(t, "grpc://127.0.0.1:1", "a", workers.Regular))
	for asked, want := range map[string]string{"my-alias": "my-alias", "": "unknown"} {
		c := chat()
		x := &pipeline.Exchange{Client: c, Model: "canonical", Asked: asked}
		require.Error(t, assembled(t, given(pipeline.Model), Candidates(registry)).Run(x))
		require.Contains(t, c.got.String(), "No worker available for model '"+want+"'")
	}
}
