package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// http-dataplane.md, section 3.5 and 7: token ids win over text, a hint over both, and nothing is read that nobody asks for.
func TestPromptReadsWhatLivePoliciesAskFor(t *testing.T) {
	const text, tokens, both = pipeline.WantText, pipeline.WantTokens, pipeline.WantText | pipeline.WantTokens
	const words, ids = `{"text":"hello","input_ids":[]}`, `{"text":"hello","input_ids":[1,2,3]}`
	hinted := pipeline.RoutingPrompt{Tokens: []uint32{7, 8}, Hinted: true}
	salted := pipeline.RoutingPrompt{Text: "hello", Partition: partitionOf(t, Generate, `{"cache_salt":"x"}`)}
	tests := []struct {
		name, body, hint string
		wants            pipeline.Want
		streamed         bool
		want             pipeline.RoutingPrompt
	}{
		{"nobody asks", words, "", 0, false, pipeline.RoutingPrompt{}},
		{"nobody asks, and there is a hint", words, "7,8", 0, false, pipeline.RoutingPrompt{}},
		{"loads are not of the request", words, "", pipeline.WantLoads, false, pipeline.RoutingPrompt{}},
		{"text", words, "", text, false, pipeline.RoutingPrompt{Text: "hello"}},
		{"text, but there are ids", ids, "", text, false, pipeline.RoutingPrompt{Tokens: []uint32{1, 2, 3}}},
		{"ids", ids, "", tokens, false, pipeline.RoutingPrompt{Tokens: []uint32{1, 2, 3}}},
		{"text of a body that is read anyway", words, "", pipeline.WantTextIfRead, false, pipeline.RoutingPrompt{Text: "hello"}},
		{"and of one that is not", words, "", pipeline.WantTextIfRead, true, pipeline.RoutingPrompt{}},
		{"ids, but there are none", words, "", tokens, false, pipeline.RoutingPrompt{}},
		{"both: ids win", ids, "", both, false, pipeline.RoutingPrompt{Tokens: []uint32{1, 2, 3}}},
		{"the first sequence of a batch", `{"input_ids":[[4,5],[6]]}`, "", both, false, pipeline.RoutingPrompt{Tokens: []uint32{4, 5}}},
		{"a hint wins over ids", ids, "7,8", both, false, hinted},
		{"a hint wins over text", words, "7,8", text, false, hinted},
		{"a hint that is none", words, "7, 8", text, false, pipeline.RoutingPrompt{Text: "hello"}},
		{"a text with a salt is apart from others", `{"text":"hello","cache_salt":"x"}`, "", text, false, salted},
		{"a text that is not UTF-8", "{\"text\":\"h\xffi\"}", "", text, false, pipeline.RoutingPrompt{Text: "h\uFFFDi"}},
		{"a streamed body is not read", words, "", both, true, pipeline.RoutingPrompt{}},
		{"a streamed body with a hint", words, "7,8", both, true, hinted},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			demand := &pipeline.Demand{}
			demand.Raise(tt.wants)
			x := &pipeline.Exchange{Client: post("/generate", tt.body, "X-Smg-Routing-Tokens", tt.hint)}
			x.Body.Streamed = tt.streamed
			chain := assembled(t, append(bodyStages(Generate), Prompt(demand, Generate), last(200, nil))...)
			require.NoError(t, chain.Run(x))
			require.Equal(t, tt.want, x.Prompt)
		})
	}
}

// DESIGN, "Demand": it is looked at for each request, because policies come and go.
func TestPromptFollowsTheDemand(t *testing.T) {
	demand := &pipeline.Demand{}
	chain := assembled(t, append(bodyStages(Chat), Prompt(demand, Chat), last(200, nil))...)
	read := func() string {
		x := &pipeline.Exchange{Client: chat()}
		require.NoError(t, chain.Run(x))
		return x.Prompt.Text
	}
	require.Empty(t, read())
	demand.Raise(pipeline.WantText)
	require.Equal(t, "hi", read())
	demand.Drop(pipeline.WantText)
	require.Empty(t, read())
}
