package policy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// seeded is where random choices come from once [Seed] was called; nil: from the process's own source.
var seeded atomic.Pointer[dice]

// dice is a source of random numbers that can be repeated.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

// Seed makes the random choices of all policies of the process repeatable, for simulations: they are drawn one after the other from
// one source. 0 goes back to the process's own source, which nobody has to wait for.
func Seed(n uint64) {
	if n == 0 {
		seeded.Store(nil)
		return
	}
	seeded.Store(&dice{r: rand.New(rand.NewPCG(n, n))})
}

// intN is a random number from 0 to n-1; n is above 0. Policies take theirs from here.
func intN(n int) int {
	d := seeded.Load()
	if d == nil {
		return rand.IntN(n)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// float is a random number from 0 to below 1.
func float() float64 {
	d := seeded.Load()
	if d == nil {
		return rand.Float64()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64()
}
