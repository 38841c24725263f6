package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// Issue 5, part 8: a simulation is deterministic for a seed; without one, choices are not.
func TestASeedRepeatsTheChoices(t *testing.T) {
	t.Cleanup(func() { Seed(0) })
	_, all := fleet(t, 50)
	list := workers.ListOf(all...)
	choices := func(seed uint64) []int {
		Seed(seed)
		return picks(t, newPolicy(t, "random"), 30, list, all)
	}
	first := choices(3)
	require.Equal(t, first, choices(3))
	require.NotEqual(t, first, choices(4))
	require.NotEqual(t, choices(0), choices(0))
}
