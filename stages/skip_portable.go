//go:build !((amd64 || arm64) && !go1.28)

package stages

// skipFast is skipValue where there is no native skipper.
func skipFast(b []byte, i int) int { return skipValue(b, i) }
