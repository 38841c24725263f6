package stages

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// promptPartition is a digest of the fields that keep an engine's caches of equal prompts apart: the salt, the extra key and the
// adapter. 0 is none of them; "" and null are as good as absent. Each field is digested with its presence and its length, so that no
// two requests that differ in them have one digest because of how the values join. Only the digest leaves this function.
func promptPartition(k Kind, body []byte, f *fieldSet) uint64 {
	adapter := fieldLoraPath
	switch k {
	case Chat, Completions, Messages:
	case Generate:
		if !fills(f.raw(body, fieldLoraPath)) {
			adapter = fieldLoraID
		}
	default:
		return 0
	}
	var digest xxhash.Digest
	digest.Reset()
	apart := false
	for _, id := range [...]field{fieldCacheSalt, fieldExtraKey, adapter} {
		value := f.raw(body, id)
		if !fills(value) {
			digest.Write([]byte{0})
			continue
		}
		apart = true
		inner, isString := stringBytes(value)
		switch {
		case !isString: // an adapter for each prompt of a batch, or something of which only the engine knows
			inner = value
		case hasEscape(inner):
			inner = appendUnescaped(nil, inner)
		}
		var frame [9]byte
		frame[0] = 1
		binary.LittleEndian.PutUint64(frame[1:], uint64(len(inner)))
		digest.Write(frame[:])
		digest.Write(inner)
	}
	if !apart {
		return 0
	}
	return max(1, digest.Sum64())
}

// fills tells whether a value is there and not an empty string.
func fills(value []byte) bool { return len(value) > 0 && string(value) != `""` }
