package stages

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// policies.md, section 14.1
func TestTokensHintIsStrict(t *testing.T) {
	ids := func(n int) string { return strings.TrimSuffix(strings.Repeat("7,", n), ",") }
	valid := map[string][]uint32{
		"1,2,3": {1, 2, 3}, "42": {42}, "007": {7}, "0,4294967295": {0, 4294967295}, "0": {0},
		strings.Repeat("0", maxHintBytes): {0},
	}
	for header, want := range valid {
		got, ok := parseTokensHint(header, nil)
		require.True(t, ok, "%.20q", header)
		require.Equal(t, want, got, "%.20q", header)
	}
	got, ok := parseTokensHint(ids(512), nil)
	require.True(t, ok)
	require.Len(t, got, 512)

	for _, header := range []string{
		"", ",", "1,,3", "1,", ",1", "1, 2", " 1", "1 ", "+1", "-1", "1.5", "0x1", "1e3", "4294967296", "99999999999999999999999",
		"1,é", ids(513), strings.Repeat("0", maxHintBytes+1),
	} {
		got, ok := parseTokensHint(header, nil)
		require.False(t, ok, "%.20q", header)
		require.Empty(t, got)
	}
}

func TestTokensHintAppends(t *testing.T) {
	got, ok := parseTokensHint("2,3", []uint32{1})
	require.True(t, ok)
	require.Equal(t, []uint32{1, 2, 3}, got)
	got, ok = parseTokensHint("2,x", []uint32{1})
	require.False(t, ok)
	require.Equal(t, []uint32{1}, got)
}

// policies.md, section 14.1
func TestRoutingKeyIsShortUTF8(t *testing.T) {
	for key, want := range map[string]bool{
		"k": true, strings.Repeat("k", 128): true, "é": true, " ": true,
		"": false, strings.Repeat("k", 129): false, strings.Repeat("é", 65): false, "\xff": false,
	} {
		require.Equal(t, want, validRoutingKey(key), "%q", key)
	}
}

// policies.md, section 14.2
func TestTurnsOfAConversationShareAKey(t *testing.T) {
	k128 := strings.Repeat("k", 128)
	for rid, want := range map[string]string{
		"conv": "conv", "conv_t2": "conv", "conv_t2_r1": "conv", "conv_r1": "conv", "conv_t1_t2": "conv_t1",
		"conv123_t12": "conv123", "conv_r1_t2": "conv_r1", "conv_t": "conv_t", "conv_tx1": "conv_tx1", "conv_T2": "conv_T2",
		"conv-t2": "conv-t2", "under_scored_id": "under_scored_id", "_t1": "_t1", "_r1": "_r1", "_t1_r1": "_t1_r1",
		"t1": "t1", "1": "1", "conv_r1_r2": "conv_r1", "conv_t١": "conv_t١",
		k128 + "_t1_r1": k128, strings.Repeat("k", 200) + "_t1": "", strings.Repeat("k", 129): "", "": "",
	} {
		body := fmt.Sprintf(`{"rid":%q}`, rid)
		key, ok := ridOf(Chat, []byte(body), scanned(t, body))
		require.Equal(t, want != "", ok, rid)
		if ok {
			require.Equal(t, want, key, rid)
		}
	}
}

// policies.md, section 14.2
func TestRIDIsReadWhereRoutesHaveOne(t *testing.T) {
	tests := []struct {
		name, body string
		kinds      []Kind
		want       string
	}{
		{
			"a string, on every route that has it", `{"rid":"a_t1"}`,
			[]Kind{Chat, Completions, Messages, Generate, Embeddings, Classify, Rerank, V1Rerank},
			"a",
		},
		{"not in the Responses API", `{"rid":"a"}`, []Kind{Responses, CountTokens}, ""},
		{"the first of a list, on rerank", `{"rid":[ "a_r2" ,"b"]}`, []Kind{Rerank, V1Rerank}, "a"},
		{"no list elsewhere", `{"rid":["a"]}`, []Kind{Chat, Generate}, ""},
		{"an empty list", `{"rid":[]}`, []Kind{Rerank}, ""},
		{"a list of something else", `{"rid":[7]}`, []Kind{Rerank}, ""},
		{"a number", `{"rid":7}`, []Kind{Chat}, ""},
		{"null", `{"rid":null}`, []Kind{Chat, Rerank}, ""},
		{"none", `{}`, []Kind{Chat, Rerank}, ""},
		{"invalid UTF-8", "{\"rid\":\"a\xff\"}", []Kind{Chat}, ""},
		{"an escape", `{"rid":"\u0061_t1"}`, []Kind{Chat}, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, k := range tt.kinds {
				key, ok := ridOf(k, []byte(tt.body), scanned(t, tt.body))
				require.Equal(t, tt.want != "", ok, k)
				if ok {
					require.Equal(t, tt.want, key, k)
				}
			}
		})
	}
}

// FuzzTokensHint holds the parser against the rule, written with the standard library.
func FuzzTokensHint(f *testing.F) {
	for _, seed := range []string{"1,2,3", "", ",", "4294967296", "007", "1, 2", "+1", "0,4294967295"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		items := strings.Split(header, ",")
		want := make([]uint32, 0, len(items))
		ok := len(header) <= maxHintBytes && len(items) <= maxHintTokens
		for _, item := range items {
			id, err := strconv.ParseUint(item, 10, 32)
			ok = ok && err == nil && !strings.HasPrefix(item, "+")
			want = append(want, uint32(id))
		}
		got, gotOK := parseTokensHint(header, nil)
		require.Equal(t, ok, gotOK)
		if ok {
			require.Equal(t, want, got)
		}
	})
}
