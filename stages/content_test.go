package stages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 3.2; DECISIONS.md 27
func TestContentTypeMustBeJSON(t *testing.T) {
	tests := []struct {
		name, header string
		ok           bool
	}{
		{"the usual one", "application/json", true},
		{"with a parameter", "application/json; charset=utf-8", true},
		{"with a parameter that makes no sense", "application/json;;=", true},
		{"in another case", "Application/JSON", true},
		{"with space around it", " application/json ", true},
		{"a structured suffix", "application/vnd.api+json; v=1", true},
		{"none", "", false},
		{"a form", "application/x-www-form-urlencoded", false},
		{"plain text", "text/plain", false},
		{"JSON as text", "text/json", false},
		{"a suffix alone", "application/+json", false},
		{"JSON lines", "application/jsonl", false},
		{"the subtype alone", "json", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := checkContentType(tt.header)
			if tt.ok {
				require.Nil(t, err)
				return
			}
			require.Equal(t, badRequest("json_parse_error", "", "Missing Content-Type: application/json header"), err)
		})
	}
}

// DECISIONS.md 8
func TestCompressedBodiesAreRefused(t *testing.T) {
	for header, ok := range map[string]bool{"": true, "identity": true, " Identity ": true, "gzip": false, "identity, br": false} {
		err := checkContentEncoding(header)
		require.Equal(t, ok, err == nil, "%q", header)
		if !ok {
			require.Equal(t, 415, err.Status)
			require.Equal(t, "unsupported_content_encoding", err.Code)
		}
	}
}
