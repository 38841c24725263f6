package stages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The native skipper works in blocks, and takes a string without end if the bytes end where a block does. So every length is tried,
// with everything that may stand at the end.
func TestSkippersAgreeAtEveryLength(t *testing.T) {
	starts := []string{`"`, `["`, `{"a":"`, `[{"`}
	ends := []string{``, `"`, `"]`, `"}`, `":1}]`, `\`, `\"`, `\\`, `\\"`, `\\"]`, `\q"`, `\q"]`, `\u00`, `\u00e"`, `\u00e9"`, `$`, "\n\"", "\n\"]", "\x00\"", "\xff\""}
	for _, start := range starts {
		for _, end := range ends {
			for n := range 200 {
				value := []byte(start + strings.Repeat("x", n) + end)
				want := json.Valid(value)
				require.Equal(t, want, skipFast(value, 0) == len(value), "native: %q, %d, %q", start, n, end)
				require.Equal(t, want, skipValue(value, 0) == len(value), "portable: %q, %d, %q", start, n, end)
			}
		}
	}
}

// A prefix of a value must never be taken for a value, whatever stands behind it in memory.
func TestSkippersStopAtTheEndOfTheBytes(t *testing.T) {
	body := chatBody(4<<10, code+prose)
	for n := range len(body) {
		require.Negative(t, skipFast(body[:n], 0), "native: %d bytes", n)
		require.Negative(t, skipValue(body[:n], 0), "portable: %d bytes", n)
		require.NotNil(t, scanObject(body[:n], new(fieldSet)), "scanner: %d bytes", n)
	}
	require.Equal(t, len(body), skipFast(body, 0))
	require.Equal(t, len(body), skipValue(body, 0))
}
