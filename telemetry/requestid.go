package telemetry

import (
	"math/rand/v2"
	"strings"
)

const (
	requestIDAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	requestIDRandom   = 24  // random characters after the prefix
	requestIDMax      = 128 // longest id that is taken over from a client
)

// MintRequestID makes an id for a request that brought none: a prefix that tells the route by the path's suffix ("chatcmpl-",
// "cmpl-", "gnt-", "resp-", "msg_", else "req-") and 24 random characters of [A-Za-z0-9]. path has no query.
func MintRequestID(path string) string {
	var buf [len("chatcmpl-") + requestIDRandom]byte
	b := append(buf[:0], requestIDPrefix(path)...)
	end := len(b) + requestIDRandom
	// Six bits a character, ten characters a draw. 62 and 63 are drawn again rather than folded: every id is equally likely.
	for bits, left := uint64(0), 0; len(b) < end; bits, left = bits>>6, left-1 {
		if left == 0 {
			bits, left = rand.Uint64(), 10
		}
		if c := bits & 63; c < uint64(len(requestIDAlphabet)) {
			b = append(b, requestIDAlphabet[c])
		}
	}
	return string(b)
}

// requestIDPrefix knows the longer suffix first: a chat path ends in "/completions" too.
func requestIDPrefix(path string) string {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return "chatcmpl-"
	case strings.HasSuffix(path, "/completions"):
		return "cmpl-"
	case strings.HasSuffix(path, "/generate"):
		return "gnt-"
	case strings.HasSuffix(path, "/responses"):
		return "resp-"
	case strings.HasSuffix(path, "/messages"):
		return "msg_"
	}
	return "req-"
}

// ValidRequestID reports whether an id sent by a client may be kept: 1 to 128 visible ASCII characters, so that it can
// stand in a header and in a log line as it is.
func ValidRequestID(id string) bool {
	if len(id) == 0 || len(id) > requestIDMax {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] >= 0x7f {
			return false
		}
	}
	return true
}
