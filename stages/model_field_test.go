package stages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 3.4; cases.md C25, C26
func TestReplacingTheModelChangesNothingElse(t *testing.T) {
	tests := []struct{ name, body, canonical, want string }{
		{
			"an alias is replaced, all digits stay", `{"model":"alias","x_custom":12345678901234567890,"temperature":0.95,"z":1E1}`, "canonical",
			`{"model":"canonical","x_custom":12345678901234567890,"temperature":0.95,"z":1E1}`,
		},
		{"the order and the spaces stay", "{ \"z\" : 1,\n \"model\" :\t\"a\" , \"n\" : 2 }", "longer", "{ \"z\" : 1,\n \"model\" :\t\"longer\" , \"n\" : 2 }"},
		{"the last one counts", `{"model":"a","n":1,"model":"b"}`, "c", `{"model":"a","n":1,"model":"c"}`},
		{"no model is never inserted", `{"n":1}`, "c", `{"n":1}`},
		{"null stays null", `{"model":null}`, "c", `{"model":null}`},
		{"the same model is not touched, however it is spelt", `{"model":"\u0063"}`, "c", `{"model":"\u0063"}`},
		{"what must be escaped is", `{"model":"a"}`, "q\"\\\n<é", `{"model":"q\"\\\u000a<é"}`},
		{"a nested model is another matter", `{"x":{"model":"a"}}`, "c", `{"x":{"model":"a"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := scanned(t, tt.body)
			edited := replaceModel([]byte(tt.body), f, tt.canonical)
			require.Equal(t, tt.want, string(edited))
			again := scanned(t, tt.want)
			for id := range fieldCount {
				require.Equal(t, string(again.raw(edited, id)), string(f.raw(edited, id)), "%s after the edit", id)
			}
		})
	}
}

func TestReplacingTheModelLeavesTheClientsBytesAlone(t *testing.T) {
	body := []byte(`{"model":"alias","n":1}`)
	before := string(body)
	replaceModel(body, scanned(t, before), "canonical")
	require.Equal(t, before, string(body))
}

// DECISIONS.md 40
func TestPeekingAtTheFirstBytes(t *testing.T) {
	tests := []struct {
		name, first, model string // empty: not found
	}{
		{"a model at the start", `{"model":"m","messages":[{"role":"user","con`, "m"},
		{"a model behind other members", ` { "n" : 12 , "stream":true,"model" : "m" , "prompt":"abc`, "m"},
		{"a model that ends with the bytes", `{"model":"m"`, "m"},
		{"a whole body", `{"model":"m"}`, "m"},
		{"a model behind a long prompt", `{"prompt":"` + strings.Repeat("x", 3000) + `","model":"m",`, "m"},
		{"the last of those that are there", `{"model":"a","model":"b","x":`, "b"},
		{"a model with escapes", `{"model":"\u006d","x`, "m"},
		{"a key with escapes", `{"mode\u006c":"m","x`, "m"},
		{"a model that is cut", `{"model":"m`, ""},
		{"a model that has not come yet", `{"messages":[{"role":"user","content":"hello wor`, ""},
		{"a nested model", `{"x":{"model":"m"},"y":`, ""},
		{"a model of another case", `{"Model":"m","x":1,`, ""},
		{"a model that is not a string", `{"model":7,"x":1,`, ""},
		{"null takes it back", `{"model":"m","model":null,"x`, ""},
		{"no object", `["model"`, ""},
		{"nothing", ``, ""},
		{"white space", "\n ", ""},
		{"an empty object", `{}`, ""},
		{"not JSON", `{model:"m"}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model, found := peekModel([]byte(tt.first))
			require.Equal(t, tt.model != "", found)
			require.Equal(t, tt.model, model)
		})
	}
}

// A model that is cut must not be taken for a shorter one, wherever the cut is.
func TestPeekingNeverFindsHalfAModel(t *testing.T) {
	model := strings.Repeat("organisation/", 20) + "model"
	body := []byte(`{"n":1,"model":"` + model + `","prompt":"x"}`)
	for n := range body {
		if got, found := peekModel(body[:n]); found {
			require.Equal(t, model, got)
		}
	}
}

// FuzzPeekModel cuts bodies anywhere, which must not harm; the whole of a good body must give what the scanner gives.
func FuzzPeekModel(f *testing.F) {
	for _, seed := range []string{`{"model":"m","n":1}`, `{"a":[1,{"b":"\u00e9"}],"model":"x"}`, `{"model":null}`, `{"model":"a","model":"b"}`, `[`} {
		f.Add([]byte(seed), 5)
	}
	f.Fuzz(func(t *testing.T, body []byte, cut int) {
		if cut >= 0 && cut <= len(body) {
			model, found := peekModel(body[:cut])
			require.True(t, found || model == "")
		}
		var fields fieldSet
		if scanObject(body, &fields) != nil {
			return
		}
		model, found := peekModel(body)
		want, ok := fieldString(body, &fields, fieldModel)
		require.Equal(t, ok, found)
		require.Equal(t, want, model)
	})
}
