package stages

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// cases.md C26
func TestStringsAreDecodedForReading(t *testing.T) {
	tests := []struct{ name, value, want string }{
		{"plain", `"m"`, "m"},
		{"empty", `""`, ""},
		{"short escapes", `"\"\\\/\b\f\n\r\t"`, "\"\\/\b\f\n\r\t"},
		{"an escaped backslash before a letter", `"\\n"`, `\n`},
		{"a code point", `"\u00e9\u4E2D"`, "é中"},
		{"a surrogate pair", `"\ud83d\ude00"`, "😀"},
		{"half a pair at the end", `"cut \ud83d"`, "cut \ufffd"},
		{"half a pair before text", `"\ud83dx"`, "\ufffdx"},
		{"half a pair before an escape", `"\ud83d\n"`, "\ufffd\n"},
		{"two halves of the wrong kind", `"\ud83d\ud83d\ude00"`, "\ufffd😀"},
		{"invalid UTF-8 stays", "\"\xff\\n\"", "\xff\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, ok := stringOf([]byte(tt.value))
			require.True(t, ok)
			require.Equal(t, tt.want, s)
			require.True(t, stringEquals([]byte(tt.value), tt.want))
			require.False(t, stringEquals([]byte(tt.value), tt.want+"x"))
		})
	}
	for _, value := range []string{`7`, `null`, `{"a":1}`, `["m"]`, `true`, ``} {
		_, ok := stringOf([]byte(value))
		require.False(t, ok || stringEquals([]byte(value), ""), value)
	}
}

func TestFieldsAreReadByType(t *testing.T) {
	body := `{"model":"m","stream":true,"logprobs":false,"n":2,"top_k":1E1,"best_of":1.5,"max_tokens":"3","text":null}`
	f := scanned(t, body)
	require.Equal(t, "m", modelOf([]byte(body), f))
	require.True(t, fieldEquals([]byte(body), f, fieldModel, "m"))
	require.True(t, fieldBool([]byte(body), f, fieldStream))
	require.False(t, fieldBool([]byte(body), f, fieldLogprobs))
	require.False(t, fieldBool([]byte(body), f, fieldModel))
	for id, want := range map[field]int{fieldN: 2, fieldTopK: 10} {
		n, ok := fieldInt([]byte(body), f, id)
		require.True(t, ok, id)
		require.Equal(t, want, n, id)
	}
	for _, id := range []field{fieldBestOf, fieldMaxTokens, fieldText, fieldMinTokens} {
		_, ok := fieldInt([]byte(body), f, id)
		require.False(t, ok, id)
	}
	require.Empty(t, modelOf([]byte(`{"model":7}`), scanned(t, `{"model":7}`)))
}

func FuzzStrings(f *testing.F) {
	f.Add(`"\ud83d\ude00\n"`, "a\"b\\c\n\x00é")
	f.Fuzz(func(t *testing.T, value, text string) {
		var want string
		if json.Valid([]byte(value)) && value[0] == '"' && value[len(value)-1] == '"' && utf8.ValidString(value) {
			require.NoError(t, json.Unmarshal([]byte(value), &want))
			got, ok := stringOf([]byte(value))
			require.True(t, ok)
			require.Equal(t, want, got)
		}
		quoted := appendQuoted(nil, text)
		got, ok := stringOf(quoted)
		require.True(t, ok)
		require.Equal(t, text, got)
		require.Equal(t, len(quoted), skipString(quoted, 1))
	})
}
