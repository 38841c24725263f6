package stages

import (
	"unicode/utf8"
)

const (
	maxRoutingKey = 128  // bytes
	maxHintBytes  = 4096 // of the header with routing tokens
	maxHintTokens = 512
)

// validRoutingKey tells whether a value can keep requests together: 1 to 128 bytes of UTF-8.
func validRoutingKey(v string) bool {
	return v != "" && len(v) <= maxRoutingKey && utf8.ValidString(v)
}

// ridOf is the routing key that the body's rid stands for: the rid without the suffixes that number turns and retries. ok is false
// if the route has no rid, the body has none, or it is not fit for a key. Where the rid may be a list, the first id counts.
func ridOf(k Kind, body []byte, f *fieldSet) (key string, ok bool) {
	if !f.has(fieldRID) || !k.hasRID() {
		return "", false
	}
	value := f.raw(body, fieldRID)
	if value[0] == '[' && k.isRerank() && !isEmpty(value) {
		first := skipSpace(value, 1)
		value = value[first:skipFast(value, first)]
	}
	rid, ok := stringOf(value)
	if !ok {
		return "", false
	}
	key = stripTurn(rid)
	return key, validRoutingKey(key)
}

// stripTurn takes a trailing _r<digits> off, then a trailing _t<digits>, each once. If nothing would be left, the id stays whole.
func stripTurn(id string) string {
	if s := stripCounter(stripCounter(id, 'r'), 't'); s != "" {
		return s
	}
	return id
}

func stripCounter(id string, tag byte) string {
	digits := len(id)
	for digits > 0 && '0' <= id[digits-1] && id[digits-1] <= '9' {
		digits--
	}
	if digits == len(id) || digits < 2 || id[digits-1] != tag || id[digits-2] != '_' {
		return id
	}
	return id[:digits-2]
}

// parseTokensHint reads the token ids of a routing header: 1 to 512 decimal numbers below 2^32, with commas between them, in at
// most 4096 bytes. A header with anything else in it, a space or a sign included, is no hint at all: ok is false. The ids are
// appended to into, which may be nil.
func parseTokensHint(header string, into []uint32) (tokens []uint32, ok bool) {
	if header == "" || len(header) > maxHintBytes {
		return into, false
	}
	tokens = into
	for {
		id, length := leadingUint32(header)
		if length == 0 || len(tokens)-len(into) == maxHintTokens {
			return into, false
		}
		tokens = append(tokens, id)
		if length == len(header) {
			return tokens, true
		}
		if header[length] != ',' {
			return into, false
		}
		header = header[length+1:]
	}
}

// leadingUint32 reads the decimal number at the start of s. length is 0 if there is none, or it does not fit.
func leadingUint32[T string | []byte](s T) (n uint32, length int) {
	var v uint64
	for length < len(s) && '0' <= s[length] && s[length] <= '9' {
		v = v*10 + uint64(s[length]-'0')
		if v > 1<<32-1 {
			return 0, 0
		}
		length++
	}
	return uint32(v), length
}
