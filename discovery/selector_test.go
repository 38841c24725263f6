package discovery

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// discovery.md, sections 3 and 4
func TestASelectorIsReadFromItemsAsTheyAreTyped(t *testing.T) {
	tests := []struct {
		name  string
		items []string
		want  string // the canonical form
		err   string // part of the error
	}{
		{"several items add up", []string{"app=sglang", "environment=production"}, "app=sglang,environment=production", ""},
		{"one item has several pairs, separated by blanks", []string{"app=x  role=y"}, "app=x,role=y", ""},
		{"one item has several pairs, separated by commas", []string{"app=x,env=y"}, "app=x,env=y", ""},
		{"pairs come out sorted by key", []string{"z=1", "a=2"}, "a=2,z=1", ""},
		{"an empty value stands for a label with an empty value", []string{"app="}, "app=", ""},
		{"a key may have a prefix", []string{"smg.ai/role=w"}, "smg.ai/role=w", ""},
		{"the same pair twice is one pair", []string{"app=x", "app=x"}, "app=x", ""},
		{"nothing is an empty selector", nil, "", ""},
		{"a word is no pair", []string{"app"}, "", "invalid selector 'app': expected key=value"},
		{"a pair needs a key", []string{"=x"}, "", "invalid selector '=x': expected key=value"},
		{"what follows the first = is the value, which has no =", []string{"app=x=y"}, "", "invalid selector 'app=x=y': expected key=value"},
		{"a key has the form of a label", []string{"a p p=x"}, "", "invalid selector 'a': expected key=value"},
		{"a key has no character that a label has not", []string{"app!=x"}, "", "invalid selector 'app!=x': expected key=value"},
		{"a value has the form of a label's", []string{"app=-x"}, "", "invalid selector 'app=-x': expected key=value"},
		{"no pod has two values of one label", []string{"app=x", "app=y"}, "", "'app=x' was given before"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := ParseSelector(tt.items)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, s.String())
		})
	}
}

// discovery.md, section 4
func TestASelectorMatchesPodsThatHaveEveryPair(t *testing.T) {
	tests := []struct {
		name     string
		selector Selector
		labels   map[string]string
		want     bool
		missing  string
	}{
		{"all pairs and more", Selector{"app": "x"}, map[string]string{"app": "x", "b": "c"}, true, ""},
		{"one pair of two", Selector{"app": "x", "env": "p"}, map[string]string{"app": "x"}, false, "it has no label env (wanted: 'p')"},
		{"another value", Selector{"app": "x"}, map[string]string{"app": "X"}, false, "its label app is 'X' (wanted: 'x')"},
		{"an empty value is there", Selector{"app": ""}, map[string]string{"app": ""}, true, ""},
		{"an empty value is not there", Selector{"app": ""}, nil, false, "it has no label app (wanted: '')"},
		{"an empty selector matches nothing", nil, map[string]string{"app": "x"}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.selector.Matches(tt.labels))
			require.Equal(t, tt.missing, strings.Join(tt.selector.Missing(tt.labels), "; "))
		})
	}
}

// What a selector's canonical form says is what was read.
func FuzzSelector(f *testing.F) {
	for _, seed := range []string{"app=x", "a=b c=d", "a=b,c=d", "a=", "=b", "a", "a=b=c", "x/y=z", "\x00=\xff", "a=b a=c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSelector([]string{text})
		if err != nil {
			return
		}
		again, err := ParseSelector([]string{s.String()})
		require.NoError(t, err)
		require.Equal(t, s, again)
		require.Equal(t, len(s) > 0, s.Matches(s))
	})
}
