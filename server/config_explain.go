package server

// ExplainConfig says how the gateway explains its choices.
type ExplainConfig struct {
	ExplainHeader bool `name:"explain-header" help:"Answer requests that carry x-smg-explain: 1 with a header of that name: who was chosen, by what and why. POST /explain needs no flag."`
}
