package server

// ExplainConfig says how the gateway explains its choices.
type ExplainConfig struct {
	ExplainHeader bool `name:"explain-header" help:"Answer requests that carry x-smg-explain: 1 with a header of that name: what POST /explain tells, in 4 KiB at most. POST /explain needs no flag."`
}
