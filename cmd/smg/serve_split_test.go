package main

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveArities are the flags that serve knows when it starts engines.
func serveArities(t testing.TB) map[string]arity {
	t.Helper()
	c := &cli{stdout: io.Discard, stderr: io.Discard}
	parser, err := engineParser(&engineFlags{}, c.options()...)
	require.NoError(t, err)
	return arities(parser.Model.Flags)
}

// cli.md, section 8.3
func TestSplit(t *testing.T) {
	known := serveArities(t)
	known["--router-prefill"] = urlAndPort
	known["--no-log"] = noValue
	tests := []struct{ name, args, own, engine string }{
		{
			"the check of the sheet",
			"--backend vllm --model foo --data-parallel-size 2 --enforce-eager --router-policy=random --stop a b -- --data-parallel-size 4",
			"--backend vllm --model foo --data-parallel-size 2 --router-policy=random", "--enforce-eager --stop a b --data-parallel-size 4",
		},
		{"behind -- all is the engine's", "-- --model m -- x", "", "--model m -- x"},
		{"a switch takes no word", "--enable-token-usage-details x", "--enable-token-usage-details", "x"},
		{"a switch of the gateway takes no word", "--router-log-json x --y", "--router-log-json", "x --y"},
		{"the other form of a switch is known too", "--no-log x", "--no-log", "x"},
		{"a switch may have a value", "--router-log-json=false x", "--router-log-json=false", "x"},
		{"a flag with one value takes no second", "--model m n", "--model m", "n"},
		{"a value joined with = is all", "--model=m n", "--model=m", "n"},
		{"a negative number is a value", "--data-parallel-size -1 -2", "--data-parallel-size -1", "-2"},
		{"a flag is no value, and its lack is for the parser to tell", "--model --enforce-eager", "--model", "--enforce-eager"},
		{"other names of a flag are known", "--dp-size 2 --model-path m --tp 2 --tp_size 2", "--dp-size 2 --model-path m --tp 2 --tp_size 2", ""},
		{"a list takes all words up to the next flag", "--router-routing-key-headers a b --x c", "--router-routing-key-headers a b", "--x c"},
		{"a list may be empty", "--router-routing-key-headers --x", "--router-routing-key-headers", "--x"},
		{"a list with = has one value", "--router-routing-key-headers=a b", "--router-routing-key-headers=a", "b"},
		{"an unknown flag takes all words, negative numbers too", "--x a -1 -.5 b --model m c", "--model m", "--x a -1 -.5 b c"},
		{"an unknown flag with = takes words too", "--x=1 a --model m", "--model m", "--x=1 a"},
		{"a short flag is unknown", "-x 1 -O3", "", "-x 1 -O3"},
		{"launch's own names are the engine's", "--log-level debug --policy x --config f", "", "--log-level debug --policy x --config f"},
		{"host and port are the gateway's", "--host h --port 1", "--host h --port 1", ""},
		{"a misspelt flag of the gateway is smg's to complain of", "--router-polcy x --y", "--router-polcy x", "--y"},
		{"the beginning of a flag's name is not the flag", "--mod m", "", "--mod m"},
		{"a stray word with = is the engine's", "a=b --model m", "--model m", "a=b"},
		{"a URL may have a port", "--router-prefill u 1 2", "--router-prefill u 1", "2"},
		{"a URL may say that it has no port", "--router-prefill u NONE x", "--router-prefill u NONE", "x"},
		{"a URL need not have a port", "--router-prefill u x", "--router-prefill u", "x"},
		{"a URL with = may have a port", "--router-prefill=u 1 2", "--router-prefill=u 1", "2"},
		{"a URL may be missing", "--router-prefill --x", "--router-prefill", "--x"},
		{"nothing is nothing", "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			own, engine := split(strings.Fields(tt.args), known)
			require.Equal(t, tt.own, strings.Join(own, " "))
			require.Equal(t, tt.engine, strings.Join(engine, " "))
		})
	}
}

// No word is lost, doubled or moved past another of its side.
func FuzzSplit(f *testing.F) {
	for _, args := range []string{"--model m --x 1 -- --y", "a=b -1 --dp-size=2 --router-policy", "-- --", "--router-x a", "= --= - ---"} {
		f.Add(args)
	}
	known := serveArities(f)
	f.Fuzz(func(t *testing.T, args string) {
		tokens := strings.Fields(args)
		own, engine := split(tokens, known)
		if i := slices.Index(tokens, "--"); i >= 0 {
			tokens = slices.Delete(slices.Clone(tokens), i, i+1)
		}
		if len(own)+len(engine) != len(tokens) {
			t.Fatalf("%q: %q and %q hold more or less", args, own, engine)
		}
		for _, side := range [][]string{own, engine} {
			rest := tokens
			for _, token := range side {
				i := slices.Index(rest, token)
				if i < 0 {
					t.Fatalf("%q: %q of %q is out of place", args, token, side)
				}
				rest = rest[i+1:]
			}
		}
	})
}

// DECISIONS 16
func TestWhatMakesServeStartEngines(t *testing.T) {
	for args, want := range map[string]bool{
		"":                                    false,
		"--worker-urls http://a":              false,
		"--data-parallel-size 2":              false,
		"--model m":                           true,
		"--model-path=m":                      true,
		"--port 1 --backend vllm":             true,
		"--engine-command x":                  true,
		"--worker-urls http://a -- --model m": false,
	} {
		require.Equal(t, want, startsEngines(strings.Fields(args)), args)
	}
}
