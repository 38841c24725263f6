package stages

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func partitionOf(t testing.TB, k Kind, body string) uint64 {
	t.Helper()
	return promptPartition(k, []byte(body), scanned(t, body))
}

// cache-aware.md, section 1.3
func TestPartitionsFollowSaltKeyAndAdapter(t *testing.T) {
	none := []string{
		`{}`, `{"cache_salt":""}`, `{"cache_salt":null}`, `{"cache_salt":"","extra_key":"","lora_path":null}`, `{"x":{"cache_salt":"a"}}`,
	}
	apart := []string{
		`{"cache_salt":"x"}`, `{"extra_key":"x"}`, `{"lora_path":"x"}`, `{"cache_salt":"y"}`, `{"cache_salt":"xy"}`, `{"cache_salt":"x","extra_key":"y"}`,
		`{"cache_salt":"x","lora_path":"y"}`, `{"cache_salt":"\u0000"}`, `{"lora_path":["x"]}`, `{"lora_path":["x","y"]}`,
	}
	for _, k := range []Kind{Chat, Completions, Messages, Generate} {
		for _, body := range none {
			require.Zero(t, partitionOf(t, k, body), "%s", body)
		}
		seen := map[uint64]string{}
		for _, body := range apart {
			p := partitionOf(t, k, body)
			require.NotZero(t, p, "%s", body)
			require.NotContains(t, seen, p, "%s and %s", body, seen[p])
			require.Equal(t, p, partitionOf(t, k, body))
			seen[p] = body
		}
	}
}

// cache-aware.md, section 1.3
func TestPartitionsAreReadWhereTheyAreSpoken(t *testing.T) {
	require.Equal(t, partitionOf(t, Chat, `{"cache_salt":"x"}`), partitionOf(t, Generate, `{"cache_salt":"\u0078"}`), "however it is written")
	require.Equal(t, partitionOf(t, Generate, `{"lora_path":"x"}`), partitionOf(t, Generate, `{"lora_id":"x"}`))
	require.Equal(t, partitionOf(t, Generate, `{"lora_path":"x"}`), partitionOf(t, Generate, `{"lora_path":"x","lora_id":"y"}`))
	require.Zero(t, partitionOf(t, Chat, `{"lora_id":"x"}`), "it is a field of /generate alone")
	for _, k := range []Kind{Embeddings, Classify, Responses, CountTokens, Rerank, V1Rerank} {
		require.Zero(t, partitionOf(t, k, `{"cache_salt":"x","extra_key":"y","lora_path":"z"}`))
	}
}

func TestPartitionsCostNoMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	body := `{"cache_salt":"x","extra_key":"y","lora_path":"z"}`
	bytes, f := []byte(body), scanned(t, body)
	require.Zero(t, testing.AllocsPerRun(100, func() { promptPartition(Chat, bytes, f) }))
}
