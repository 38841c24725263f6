package discovery

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// discovery.md, section 4: the Check lines
func TestTheServerIsAskedForCandidatesAndRolesAreDecidedHere(t *testing.T) {
	labels := func(items ...string) Selector { s, _ := ParseSelector(items); return s }
	tests := []struct {
		name      string
		selectors Selectors
		filter    string
		pod       Selector
		role      string // "" for none
	}{
		{
			"regular workers are asked for by all pairs",
			Selectors{Worker: labels("b=2", "a=1")},
			"a=1,b=2", labels("a=1", "b=2", "c=3"), "regular",
		},
		{
			"a pair in which roles differ is asked for as a set",
			Selectors{Prefill: labels("app=vllm", "role=prefill"), Decode: labels("app=vllm", "role=decode")},
			"app=vllm,role in (decode,prefill)", labels("app=vllm", "role=decode"), "decode",
		},
		{
			"who passes the filter need not have a role",
			Selectors{Prefill: labels("app=a", "role=p"), Decode: labels("app=b", "role=d")},
			"app in (a,b),role in (d,p)", labels("app=a", "role=d"), "",
		},
		{
			"roles without a common label cannot be asked for, and prefill comes before decode",
			Selectors{Prefill: labels("tier=p"), Decode: labels("kind=d")},
			"", labels("tier=p", "kind=d"), "prefill",
		},
		{
			"encode comes before prefill",
			Selectors{Encode: labels("a=1"), Prefill: labels("a=1", "b=2"), Decode: labels("a=1", "b=3")},
			"a=1", labels("a=1", "b=2"), "encode",
		},
		{
			"a role without a selector matches nothing and asks for nothing",
			Selectors{Prefill: labels("app=p")},
			"app=p", labels("app=d"), "",
		},
		{
			"the selector of regular workers does not count beside those of roles",
			Selectors{Worker: labels("app=w"), Decode: labels("app=d")},
			"app=d", labels("app=w"), "",
		},
		{"no selector at all matches nothing", Selectors{}, "", labels("app=w"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.filter, tt.selectors.filter())
			part, ok := tt.selectors.Role(tt.pod)
			require.Equal(t, tt.role != "", ok)
			if ok {
				require.Equal(t, tt.role, part.String())
			}
		})
	}
}

// discovery.md, section 18
func TestTheFirstLogLineShowsTheSelectors(t *testing.T) {
	require.Equal(t, "selector: 'a=1,b=2'", Selectors{Worker: Selector{"b": "2", "a": "1"}}.describe())
	require.Equal(t, "disaggregated mode | encode: '' | prefill: 'a=1' | decode: 'a=2'",
		Selectors{Prefill: Selector{"a": "1"}, Decode: Selector{"a": "2"}}.describe())
}
