package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// http-dataplane.md, section 2.5: ranks are dropped from the pool; if only they remain it is 400 dp_aware_not_supported.
func TestWholeEnginesLeavesRanksOut(t *testing.T) {
	const host = "http://127.0.0.1:1"
	tests := []struct {
		name       string
		urls, left []string
		code       string
	}{
		{"engines without ranks", []string{host, host + "1"}, []string{host, host + "1"}, ""},
		{"engines with and without", []string{host + "@0", host + "1", host + "@1"}, []string{host + "1"}, ""},
		{"ranks alone", []string{host + "@0", host + "@1"}, nil, "dp_aware_not_supported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := workers.NewRegistry()
			for _, url := range tt.urls {
				require.NoError(t, registry.Add(named(t, url, "m1", workers.Regular)))
			}
			x := &pipeline.Exchange{Client: chat(), Explain: &pipeline.Explanation{}}
			err := assembled(t, given(pipeline.Model), Candidates(registry), WholeEngines(), last(200, nil)).Run(x)
			require.Len(t, x.Explain.LeftOut, len(tt.urls)-len(tt.left))
			if tt.code != "" {
				e := pipeline.AsError(err)
				require.Equal(t, []any{400, tt.code, true}, []any{e.Status, e.Code, e.Terminal})
				return
			}
			require.NoError(t, err)
			for _, list := range []workers.List{x.Pool, x.Candidates} {
				var urls []string
				for _, w := range list.All() {
					urls = append(urls, w.URL())
				}
				require.Equal(t, tt.left, urls)
			}
		})
	}
}
