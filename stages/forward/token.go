package forward

// tokenByte marks the bytes that may stand in a method or a field name (RFC 9110, 5.6.2).
var tokenByte = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// isToken tells whether s is a method or field name.
func isToken(s string) bool {
	for i := 0; i < len(s); i++ {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// isText tells whether s may be a field value: no control character but the tab. It looks at eight bytes at a time, because
// it sees every byte of every head.
func isText(s string) bool {
	for len(s) >= 8 {
		word := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		control := (word - 0x20*ones) &^ word // high bit of a byte: below 0x20, or a neighbour's borrow
		del := word ^ 0x7f*ones
		del = (del - ones) &^ del
		if (control|del)&highs != 0 && !plainText(s[:8]) { // sure only when it says no
			return false
		}
		s = s[8:]
	}
	return plainText(s)
}

func plainText(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isTarget tells whether s may stand in a request line: visible bytes alone.
func isTarget(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= 0x20 || c == 0x7f {
			return false
		}
	}
	return true
}

// trimSpace takes spaces and tabs off both ends.
func trimSpace(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
