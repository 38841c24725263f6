package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAListOfTenantsIsReadLineByLine(t *testing.T) {
	const refusal = " is not a tenant and its tier, standard or premium"
	tests := []struct {
		name, text string
		want       map[string]string
		err        string
	}{
		{"a line for each", "a premium\nb standard\n", map[string]string{"a": premium, "b": standard}, ""},
		{"blanks, empty lines and remarks", "  a \t premium\r\n\n# b standard\n", map[string]string{"a": premium}, ""},
		{"the last line needs no end", "a premium", map[string]string{"a": premium}, ""},
		{"an empty list", "", map[string]string{}, ""},
		{"a tenant without a tier", "a premium\nb\n", nil, "line 2" + refusal},
		{"a tier that there is not", "a gold\n", nil, "line 1" + refusal},
		{"a word too many", "a premium now\n", nil, "line 1" + refusal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := parseTenants(tt.text)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, list)
		})
	}
}

func FuzzParseTenants(f *testing.F) {
	f.Add("a premium\n# b\n\nc standard")
	f.Add("a\x00 premium\xff")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseTenants(text)
		if err != nil {
			require.Nil(t, list)
		}
		for tenant, tier := range list {
			require.NotEmpty(t, tenant)
			require.Contains(t, []string{standard, premium}, tier)
		}
	})
}
