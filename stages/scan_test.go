package stages

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// scanned is the fields of a body that must be in order.
func scanned(t testing.TB, body string) *fieldSet {
	t.Helper()
	f := new(fieldSet)
	require.Nil(t, scanObject([]byte(body), f), "%s", body)
	return f
}

// DECISIONS.md 27; cases.md C25, C26
func TestScanTakesJSONObjectsAndNothingElse(t *testing.T) {
	tests := []struct {
		name, body string
		code       string // empty: it is taken
	}{
		{"an empty object", `{}`, ""},
		{"white space of all kinds around everything", " \n\t\r{ \"a\" : [ 1 , { } , [ ] ] \n}\r\n", ""},
		{"numbers of any size and spelling", `{"a":[0,-0.0,1e400,1E1,1.0e-7,123456789012345678901234567890]}`, ""},
		{"all escapes", `{"a":"\"\\\/\b\f\n\r\t\u003c\uD83D\ude00"}`, ""},
		{"a lone surrogate", `{"a":"cut \ud83d"}`, ""},
		{"an escaped NUL", `{"a":"\u0000"}`, ""},
		{"invalid UTF-8 in a string", "{\"a\":\"\xff\xfe\"}", ""},
		{"invalid UTF-8 in a long string", `{"a":"` + strings.Repeat("x", 100) + "\xff\xfe\"}", ""},
		{"DEL and characters above ASCII", "{\"a\":\"\x7f\u00e9\u4e2d\U0001f600\"}", ""},
		{"a line break between values of a nested one", "{\"a\":[\n\t1,\r\n\t\"b\\n\"\n]}", ""},

		{"nothing", ``, "invalid_json"},
		{"white space alone", " \n", "invalid_json"},
		{"an open brace", `{`, "invalid_json"},
		{"a body that is cut in a key", `{"mod`, "invalid_json"},
		{"a body that is cut behind a key", `{"model"`, "invalid_json"},
		{"a body that is cut behind a colon", `{"model":`, "invalid_json"},
		{"a body that is cut behind a value", `{"model":"m"`, "invalid_json"},
		{"a body that is cut behind a comma", `{"model":"m",`, "invalid_json"},
		{"a trailing comma in the object", `{"a":1,}`, "invalid_json"},
		{"a trailing comma in an array", `{"a":[1,]}`, "invalid_json"},
		{"two commas", `{"a":[1,,2]}`, "invalid_json"},
		{"a comma in front", `{,"a":1}`, "invalid_json"},
		{"no colon", `{"a" 1}`, "invalid_json"},
		{"no value", `{"a":}`, "invalid_json"},
		{"no comma", `{"a":1 "b":2}`, "invalid_json"},
		{"a key without quotes", `{a:1}`, "invalid_json"},
		{"single quotes", `{'a':1}`, "invalid_json"},
		{"brackets that do not match", `{"a":[1}]`, "invalid_json"},
		{"brackets that do not match inside", `{"a":[{"b":1]}`, "invalid_json"},
		{"a comment", `{"a":1/**/}`, "invalid_json"},
		{"a leading zero", `{"a":01}`, "invalid_json"},
		{"a leading zero in an array", `{"a":[-01]}`, "invalid_json"},
		{"a plus sign", `{"a":+1}`, "invalid_json"},
		{"a number without a whole part", `{"a":.5}`, "invalid_json"},
		{"a number without a fraction", `{"a":1.}`, "invalid_json"},
		{"a number without an exponent", `{"a":1e}`, "invalid_json"},
		{"a sign without a number", `{"a":-}`, "invalid_json"},
		{"NaN", `{"a":NaN}`, "invalid_json"},
		{"Infinity", `{"a":[-Infinity]}`, "invalid_json"},
		{"a literal in capitals", `{"a":True}`, "invalid_json"},
		{"a literal that is cut", `{"a":tru}`, "invalid_json"},
		{"a literal with a tail", `{"a":nullx}`, "invalid_json"},
		{"a line break in a string", "{\"a\":\"x\ny\"}", "invalid_json"},
		{"a line break in a nested string", "{\"a\":[\"x\ny\"]}", "invalid_json"},
		{"a control character in a string", "{\"a\":\"x\x01y\"}", "invalid_json"},
		{"a control character in a long string", `{"a":"` + strings.Repeat("x", 100) + "\x00\"}", "invalid_json"},
		{"a control character in a nested key", "{\"a\":{\"x\ty\":1}}", "invalid_json"},
		{"a control character in a key", "{\"x\ty\":1}", "invalid_json"},
		{"an unknown escape", `{"a":"C:\Users"}`, "invalid_json"},
		{"an unknown escape in a nested string", `{"a":["C:\Users"]}`, "invalid_json"},
		{"an unknown escape in a long string", `{"a":"` + strings.Repeat("x", 100) + `\q"}`, "invalid_json"},
		{"an escape without its digits", `{"a":["\u12"]}`, "invalid_json"},
		{"an escape with wrong digits", `{"a":["\u12G4"]}`, "invalid_json"},
		{"a NUL behind the object", "{}\x00", "invalid_json"},
		{"something behind the object", `{} x`, "invalid_json"},
		{"two objects", `{}{}`, "invalid_json"},
		{"a byte order mark in front", "\xef\xbb\xbf{}", "invalid_json"},
		{"a form feed in front", "\f{}", "invalid_json"},

		{"an array", `[1]`, "invalid_type"},
		{"a string", `"model"`, "invalid_type"},
		{"a number", ` 17 `, "invalid_type"},
		{"null", `null`, "invalid_type"},
		{"an array that is cut", `[1`, "invalid_json"},
		{"an array with a tail", `[1] x`, "invalid_json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := scanObject([]byte(tt.body), new(fieldSet))
			if tt.code == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Equal(t, tt.code, err.Code)
			require.Equal(t, 400, err.Status)
			require.Empty(t, err.Param)
		})
	}
}

// DECISIONS.md 6; cases.md C26
func TestScanFindsTheFieldsThatEnginesWillRead(t *testing.T) {
	tests := []struct {
		name, body, model string // the model's value as it stands in the body; empty: there is none
	}{
		{"a field among others", `{"x":{"model":"no"},"model":"m","y":["model"]}`, `"m"`},
		{"a field with white space around it", "{ \"model\" :\n\"m\" }", `"m"`},
		{"the last of two counts", `{"model":"m1","model":"m2"}`, `"m2"`},
		{"the last counts also if its key is spelt with escapes", `{"model":"m1","mod\u0065l":"m2"}`, `"m2"`},
		{"null is absent", `{"model":null}`, ""},
		{"null takes back what was said before", `{"model":"m","model":null}`, ""},
		{"another case is another field", `{"Model":"m2","MODEL":"m3"}`, ""},
		{"a value with escapes is kept as it is", `{"model":"a\/\"b"}`, `"a\/\"b"`},
		{"a value of any type", `{"model":[1,{"a":"b"}]}`, `[1,{"a":"b"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := scanned(t, tt.body)
			require.Equal(t, tt.model, string(f.raw([]byte(tt.body), fieldModel)))
			require.Equal(t, tt.model != "", f.has(fieldModel))
		})
	}
}

func TestScanForgetsTheBodyBefore(t *testing.T) {
	f := scanned(t, `{"model":"m","stream":true}`)
	require.Nil(t, scanObject([]byte(`{"n":1}`), f))
	require.False(t, f.has(fieldModel) || f.hasKey(fieldStream))
	require.True(t, f.has(fieldN))
}

func TestScanFindsEveryField(t *testing.T) {
	for id, name := range fieldNames {
		require.NotEmpty(t, name, "field %d has no name", id)
		f := scanned(t, fmt.Sprintf(`{%q:7}`, name))
		require.Equal(t, uint64(1)<<id, f.present, name)
	}
	require.LessOrEqual(t, int(fieldCount), 64, "a fieldSet has a bit for each field")
}

// A body that nests as deep as it can must neither overflow nor be refused too early.
func TestScanLimitsDepth(t *testing.T) {
	tests := []struct {
		name        string
		open, close string
		depth       int
		ok          bool
	}{
		{"arrays that engines take", "[", "]", 1000, true},
		{"arrays to the limit", "[", "]", 4095, true},
		{"objects to the limit", `{"a":`, "}", 4094, true},
		{"arrays above the limit", "[", "]", 4098, false},
		{"objects above the limit", `{"a":`, "}", 4098, false},
		{"a million arrays", "[", "]", 1 << 20, false},
		{"a million objects", `{"a":`, "}", 1 << 20, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			value := strings.Repeat(tt.open, tt.depth) + "1" + strings.Repeat(tt.close, tt.depth)
			err := scanObject([]byte(`{"messages":`+value+`}`), new(fieldSet))
			require.Equal(t, tt.ok, err == nil)
			require.Equal(t, tt.ok, skipValue([]byte(value), 0) == len(value), "the portable skipper")
			if err != nil {
				require.Equal(t, "The request body is nested too deeply.", err.Message)
			}
		})
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("with the race detector, pools drop what they are given")
	}
	body, f := chatBody(32<<10, prose), new(fieldSet)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if scanObject(body, f) != nil || Chat.validate(body, f) != nil {
			t.Error("a good body is refused")
		}
		if fieldEquals(body, f, fieldModel, "another") || !fieldBool(body, f, fieldStream) {
			t.Error("a field is misread")
		}
	}))
}

// FuzzScan holds the scanner against encoding/json, and the native skipper against the portable one.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"model":"m","messages":[{"role":"user","content":"hi\n\u00e9"}],"n":1}`, `[1,2]`, `{"a":"\ud83d"}`, `{"a":1e5,}`,
		"{\"a\":\"\xff\"}", "{\"a\":[\"\n\"]}", `{"a":"` + strings.Repeat("x", 70) + `\q"}`, `{"mod\u0065l":null}`, "\xef\xbb\xbf{}",
		`{"a":[` + strings.Repeat(`"0123456789abcdef",`, 9) + `-0.0]}`, "{\"a\":\"" + strings.Repeat("y", 90) + "\x1f\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := scanObject(body, new(fieldSet))
		if deep(body) {
			return // encoding/json goes deeper, and the skippers differ by a level
		}
		portable := skipWhole(body, skipValue)
		require.Equal(t, portable, skipWhole(body, skipFast), "native and portable skipper of %q", body)
		start := skipSpace(body, 0)
		object := json.Valid(body) && body[start] == '{'
		require.Equal(t, object, err == nil, "%q", body)
		require.Equal(t, json.Valid(body), portable, "%q", body)
		if err == nil {
			var decoded map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(body, &decoded))
			compareFields(t, body, decoded)
		}
	})
}

func skipWhole(body []byte, skip func([]byte, int) int) bool {
	start := skipSpace(body, 0)
	if start == len(body) {
		return false
	}
	end := skip(body, start)
	return end >= 0 && skipSpace(body, end) == len(body)
}

// deep tells whether a body may be nested near the limit.
func deep(body []byte) bool {
	return strings.Count(string(body), "[")+strings.Count(string(body), "{") > 4000
}

func compareFields(t *testing.T, body []byte, decoded map[string]json.RawMessage) {
	f := scanned(t, string(body))
	for id, name := range fieldNames {
		want, known := decoded[name]
		if string(want) == "null" {
			known, want = false, nil
		}
		require.Equal(t, known, f.has(field(id)), "%s of %q", name, body)
		require.Equal(t, string(want), string(f.raw(body, field(id))), "%s of %q", name, body)
	}
}
