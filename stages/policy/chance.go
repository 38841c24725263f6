package policy

import (
	"math/rand/v2"
	"sync"
)

// Chance is where policies take random numbers from. The nil one is the process's own source, which nobody has to wait for.
type Chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

// NewChance makes a source that gives the same numbers for the same seed, for simulations. Policies that share it wait for each other.
func NewChance(seed uint64) *Chance { return &Chance{r: rand.New(rand.NewPCG(seed, seed))} }

// intN is a random number from 0 to n-1; n is above 0.
func (c *Chance) intN(n int) int {
	if c == nil {
		return rand.IntN(n)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

// float is a random number from 0 to below 1.
func (c *Chance) float() float64 {
	if c == nil {
		return rand.Float64()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.Float64()
}
