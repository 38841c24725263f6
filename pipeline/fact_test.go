package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// DESIGN.md, section 3: outside programs add facts of their own with types.
func TestAFactHasAValueOnceItWasSet(t *testing.T) {
	tier, price := pipeline.NewFact[string]("tier"), pipeline.NewFact[[4]int]("price")
	x := &pipeline.Exchange{}
	require.Equal(t, "tier", tier.Name())

	_, set := tier.Lookup(x)
	require.False(t, set)
	require.Empty(t, tier.Get(x))

	price.Fill(x)[2] = 7 // the higher place first: the lower one is made when it is needed
	require.Equal(t, [4]int{0, 0, 7, 0}, price.Get(x))
	_, set = tier.Lookup(x)
	require.False(t, set, "its neighbour was filled, not it")

	tier.Set(x, "gold")
	v, set := tier.Lookup(x)
	require.True(t, set)
	require.Equal(t, "gold", v)

	tier.Set(x, "")
	v, set = tier.Lookup(x)
	require.True(t, set, "set to the zero value is set")
	require.Empty(t, v)
}

// DESIGN.md, section 3.
func TestTwoFactsOfOneNameAreTwoFacts(t *testing.T) {
	one, two := pipeline.NewFact[string]("tier"), pipeline.NewFact[string]("tier")
	x := &pipeline.Exchange{}
	one.Set(x, "one")
	two.Set(x, "two")
	require.Equal(t, "one", one.Get(x))
	require.Equal(t, "two", two.Get(x))
	require.NotEqual(t, pipeline.Fact(one), pipeline.Fact(two))
}

// DESIGN.md, section 3: exchanges are pooled, and what one request has found out is gone in the next.
func TestAFactIsForgottenWithItsRequest(t *testing.T) {
	tier := pipeline.NewFact[*string]("tier")
	x := &pipeline.Exchange{}
	tier.Set(x, new("gold"))
	x.Reset()
	v, set := tier.Lookup(x)
	require.False(t, set)
	require.Nil(t, v)
	require.Nil(t, *tier.Fill(x), "not even the place remembers")
}

// DESIGN.md, section 3: a fact belongs to no chain; each request has its own value.
func TestAFactServesTwoChains(t *testing.T) {
	tier := pipeline.NewFact[string]("tier")
	telling := stage("tell", func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, tier.Get(x)) })
	with := func(value string) *pipeline.Chain {
		return chain(t, "POST /"+value, pipeline.StageFunc("give", pipeline.Contract{Gives: []pipeline.Fact{tier}},
			func(x *pipeline.Exchange, next pipeline.Next) error {
				tier.Set(x, value)
				return next(x)
			}), telling)
	}
	gold, tin, none := with("gold"), with("tin"), chain(t, route, telling)
	for range 100 { // the pool hands the exchange of one chain to another
		for c, want := range map[*pipeline.Chain]string{gold: "gold", tin: "tin", none: ""} {
			m := &memory{}
			require.NoError(t, c.Serve(m))
			require.Equal(t, want, m.body())
		}
	}
}

// DESIGN.md, section 3: there is no map, and no allocation that belongs to the framework.
func TestAFactCostsNoAllocation(t *testing.T) {
	tier, price := pipeline.NewFact[string]("tier"), pipeline.NewFact[[64]int]("price")
	x := &pipeline.Exchange{}
	once := func() {
		tier.Set(x, "gold")
		price.Fill(x)[1]++
		if tier.Get(x) != "gold" || price.Fill(x)[1] != 1 {
			panic("lost")
		}
		x.Reset()
	}
	once()
	require.Zero(t, testing.AllocsPerRun(100, once))
}
