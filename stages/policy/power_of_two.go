package policy

import (
	"math/rand/v2"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// PowerOfTwo samples two different workers and chooses the one with fewer requests in flight; a tie goes either way. It
// costs two loads, however many workers there are.
func PowerOfTwo() Policy { return powerOfTwo{} }

type powerOfTwo struct{ stateless }

var _ Policy = powerOfTwo{}

func (powerOfTwo) Name() string { return "power_of_two" }

func (powerOfTwo) Select(x *pipeline.Exchange, among workers.List) int {
	n := among.Len()
	if n < 2 {
		return n - 1
	}
	first := rand.IntN(n)
	second := (first + 1 + rand.IntN(n-1)) % n
	a, b := among.At(first).InFlight(), among.At(second).InFlight()
	if x != nil && x.Explain != nil {
		x.Explain.Rate(among.At(first), float64(a), pipeline.Part{Name: "in_flight", Value: float64(a)})
		x.Explain.Rate(among.At(second), float64(b), pipeline.Part{Name: "in_flight", Value: float64(b)})
	}
	if b < a {
		return second
	}
	return first // of equals: it was drawn at random, as likely as the other
}
