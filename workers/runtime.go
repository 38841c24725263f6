package workers

import "strings"

// Runtime is the engine that a worker runs.
type Runtime uint8

// The runtimes.
const (
	Unspecified Runtime = iota // to be found out at registration
	SGLang
	VLLM
	TRTLLM
	MLX
	TokenSpeed
	Generic  // serves the OpenAI routes and nothing that smg knows besides
	External // a provider on the internet
)

var runtimes = []string{"unspecified", "sglang", "vllm", "trtllm", "mlx", "tokenspeed", "generic", "external"}

// String is the runtime as the API, logs and metrics name it.
func (r Runtime) String() string { return runtimes[r] }

// MarshalText is String, for JSON.
func (r Runtime) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// ParseRuntime reads a runtime as flags and labels name it: in any case, and with tensorrt-llm for trtllm.
func ParseRuntime(s string) (Runtime, bool) {
	s = strings.ToLower(s)
	if s == "tensorrt-llm" {
		return TRTLLM, true
	}
	return member[Runtime](runtimes, s)
}

// member is the place of a name in a list of names.
func member[E ~uint8](names []string, name string) (E, bool) {
	for i, n := range names {
		if n == name {
			return E(i), true
		}
	}
	return 0, false
}
