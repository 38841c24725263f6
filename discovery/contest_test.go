package discovery

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// discovery.md section 6: of two pods at one address exactly one wins, whatever the order in which they come.
func TestAnAddressHasOneWinner(t *testing.T) {
	claimant := func(key string, age time.Duration) Wanted {
		w := want("a:1=uid-" + key)
		w.Key, w.Created = key, time.Unix(1_000_000, 0).Add(-age)
		return w
	}
	old, young, twin := claimant("ns/old", time.Hour), claimant("ns/young", 0), claimant("ns/zwin", 0)
	tests := []struct {
		name       string
		claimants  []Wanted
		registered string
		winner     string
		losers     []string
	}{
		{"one alone", []Wanted{old}, "", "ns/old", nil},
		{"the one that is registered stays", []Wanted{old, young}, "uid-ns/old", "ns/old", []string{"ns/young"}},
		{"else the newest", []Wanted{old, young}, "", "ns/young", []string{"ns/old"}},
		{"of one age the greater key", []Wanted{young, twin}, "", "ns/zwin", []string{"ns/young"}},
		{"of three", []Wanted{old, young, twin}, "", "ns/zwin", []string{"ns/young", "ns/old"}},
		{"a registration of somebody who is gone helps nobody", []Wanted{old, young}, "uid-x", "ns/young", []string{"ns/old"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				slices.Reverse(tt.claimants)
				won, lost := award(tt.claimants, func(c Claim) bool { return c.Owner == tt.registered })
				require.Len(t, won, 1)
				require.Equal(t, tt.winner, won["a:1"].Key)
				var losers []string
				for _, l := range lost {
					require.Equal(t, tt.winner, l.winner)
					require.Equal(t, "a:1", l.address)
					losers = append(losers, l.loser)
				}
				require.Equal(t, tt.losers, losers)
			}
		})
	}
}
