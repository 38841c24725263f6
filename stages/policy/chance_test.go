package policy

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// A simulation is deterministic for a seed, also beside others; without one, choices are not.
func TestASeedRepeatsTheChoices(t *testing.T) {
	_, all := fleet(t, 50)
	list := workers.ListOf(all...)
	choices := func(name string, seed uint64) []int {
		s := BuiltIn(Shared{})
		if seed > 0 {
			s.Chance = NewChance(seed)
		}
		set, err := NewSet(name, s, nil, nil)
		require.NoError(t, err)
		places := make([]int, 30)
		for i := range places {
			x := &pipeline.Exchange{}
			x.BeginAttempt()
			places[i] = set.Default().Select(x, list)
		}
		return places
	}
	for _, name := range []string{
		"random", "power_of_two", "least_load", "cache_aware", "least_work", "consistent_hashing", "prefix_hash", "manual", "bucket",
	} {
		t.Run(name, func(t *testing.T) {
			first := choices(name, 3)
			require.NotEqual(t, first, choices(name, 4))
			require.Equal(t, first, choices(name, 3))
			require.NotEqual(t, choices(name, 0), choices(name, 0))
		})
	}
}
