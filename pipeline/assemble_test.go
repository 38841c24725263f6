package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// DESIGN.md, sections 1 and 3: a wrong chain is refused with a sentence that a person can act on.
func TestAssembleSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	tier := pipeline.NewFact[string]("tier")
	load, otherLoad := &background{name: "loads"}, &background{name: "loads"}
	stages := func(s ...pipeline.Stage) []pipeline.Stage { return s }
	tests := []struct {
		name   string
		stages []pipeline.Stage
		want   string
	}{
		{
			"a fact of smg that nobody gives names the stage that usually does",
			stages(gives("body", pipeline.Body), needs("policy", pipeline.Candidates)),
			`POST /generate: stage "policy" needs "candidates", which no stage before it gives; put stage "candidates" before it`,
		},
		{
			"the usual giver of a fact need not be named after it",
			stages(needs("in_flight", pipeline.Target)),
			`POST /generate: stage "in_flight" needs "target", which no stage before it gives; put stage "policy" before it`,
		},
		{
			"a fact that a later stage gives is a matter of order",
			stages(needs("policy", pipeline.Candidates), gives("candidates", pipeline.Candidates)),
			`POST /generate: stage "policy" needs "candidates", which stage "candidates" gives, but behind it; move stage "candidates" before "policy"`,
		},
		{
			"a fact of another program has no usual giver",
			stages(needs("bill", tier)),
			`POST /generate: stage "bill" needs "tier", which no stage before it gives; put a stage that gives it before "bill"`,
		},
		{
			"a stage does not give a fact to itself",
			stages(pipeline.StageFunc("bill", pipeline.Contract{Needs: []pipeline.Fact{tier}, Gives: []pipeline.Fact{tier}}, pass)),
			`POST /generate: stage "bill" needs "tier", which no stage before it gives; put a stage that gives it before "bill"`,
		},
		{
			"the usual giver is not told to stand before itself",
			stages(pipeline.StageFunc("candidates", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}, pass)),
			`POST /generate: stage "candidates" needs "candidates", which no stage before it gives; put a stage that gives it before "candidates"`,
		},
		{
			"a fact of the same name is another fact",
			stages(gives("price", pipeline.NewFact[string]("tier")), needs("bill", tier)),
			`POST /generate: stage "bill" needs "tier", which no stage before it gives; put a stage that gives it before "bill"`,
		},
		{
			"two stages have one name",
			stages(idle("auth"), idle("body"), idle("auth")),
			`POST /generate: stages 1 and 3 are both named "auth"; a chain has each stage once`,
		},
		{
			"a stage is nil",
			stages(idle("auth"), nil, idle("body")),
			`POST /generate: stage 2 is nil; leave it out`,
		},
		{
			"two dependencies have one name",
			stages(uses("overload", load), uses("policy", otherLoad)),
			`POST /generate: stage "policy" uses a dependency named "loads", and so does a stage before it, but not the same one; share one value`,
		},
		{
			"all that is wrong is said at once",
			stages(needs("policy", pipeline.Candidates), nil, needs("in_flight", pipeline.Target), idle("policy")),
			`POST /generate: stage "policy" needs "candidates", which no stage before it gives; put stage "candidates" before it
POST /generate: stage 2 is nil; leave it out
POST /generate: stage "in_flight" needs "target", which no stage before it gives; put stage "policy" before it
POST /generate: stages 1 and 4 are both named "policy"; a chain has each stage once`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := pipeline.Assemble(route, tt.stages...)
			require.EqualError(t, err, tt.want)
			require.Nil(t, c)
		})
	}
}

// DESIGN.md, section 3.
func TestAssembleAcceptsAChainWhoseFactsAreGivenInTime(t *testing.T) {
	load := &background{name: "loads"}
	c := chain(t, route,
		gives("candidates", pipeline.Pool, pipeline.Candidates),
		pipeline.StageFunc("overload", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Pool}, Uses: []pipeline.Dependency{load}}, pass),
		pipeline.StageFunc("policy", pipeline.Contract{
			Needs: []pipeline.Fact{pipeline.Candidates}, Gives: []pipeline.Fact{pipeline.Target}, Uses: []pipeline.Dependency{load},
		}, pass),
		needs("in_flight", pipeline.Target),
	)
	require.Equal(t, route, c.Route())
	require.Equal(t, []string{"candidates", "overload", "policy", "in_flight"}, names(c))
	require.Zero(t, load.runs.Load(), "assembling starts nothing")
}

// DESIGN.md, section 3: an altered chain is a new one, checked again.
func TestAlteredChains(t *testing.T) {
	base := chain(t, route,
		gives("candidates", pipeline.Candidates),
		pipeline.StageFunc("policy", pipeline.Contract{
			Needs: []pipeline.Fact{pipeline.Candidates}, Gives: []pipeline.Fact{pipeline.Target},
		}, pass),
		needs("forward", pipeline.Target),
	)
	mine := idle("mine")
	tests := []struct {
		name  string
		alter func() (*pipeline.Chain, error)
		want  []string
		err   string
	}{
		{
			"before the first", func() (*pipeline.Chain, error) { return base.Before("candidates", mine) },
			[]string{"mine", "candidates", "policy", "forward"},
			"",
		},
		{
			"after the last", func() (*pipeline.Chain, error) { return base.After("forward", mine) },
			[]string{"candidates", "policy", "forward", "mine"},
			"",
		},
		{
			"in between", func() (*pipeline.Chain, error) { return base.After("candidates", mine) },
			[]string{"candidates", "mine", "policy", "forward"},
			"",
		},
		{
			"in the place of one", func() (*pipeline.Chain, error) { return base.Replace("forward", mine) },
			[]string{"candidates", "policy", "mine"},
			"",
		},
		{
			"without one", func() (*pipeline.Chain, error) { return base.Without("forward") },
			[]string{"candidates", "policy"},
			"",
		},
		{
			"up to one", func() (*pipeline.Chain, error) { return base.Until("policy") },
			[]string{"candidates", "policy"},
			"",
		},
		{
			"without the giver of a fact", func() (*pipeline.Chain, error) { return base.Without("candidates") },
			nil, `POST /generate: stage "policy" needs "candidates", which no stage before it gives; put stage "candidates" before it`,
		},
		{
			"another in the place of the giver of a fact", func() (*pipeline.Chain, error) { return base.Replace("policy", mine) },
			nil, `POST /generate: stage "forward" needs "target", which no stage before it gives; put stage "policy" before it`,
		},
		{
			"a stage that is there already", func() (*pipeline.Chain, error) { return base.After("policy", idle("forward")) },
			nil, `POST /generate: stages 3 and 4 are both named "forward"; a chain has each stage once`,
		},
		{
			"nil", func() (*pipeline.Chain, error) { return base.Before("policy", nil) },
			nil, `POST /generate: stage 2 is nil; leave it out`,
		},
		{
			"before a stage that is not there", func() (*pipeline.Chain, error) { return base.Before("polici", mine) },
			nil, `POST /generate: there is no stage "polici"; the chain has candidates, policy, forward`,
		},
		{
			"up to a stage that is not there", func() (*pipeline.Chain, error) { return base.Until("retry") },
			nil, `POST /generate: there is no stage "retry"; the chain has candidates, policy, forward`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := tt.alter()
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				require.Nil(t, c)
			} else {
				require.NoError(t, err)
				require.Equal(t, tt.want, names(c))
				require.Equal(t, route, c.Route())
			}
			require.Equal(t, []string{"candidates", "policy", "forward"}, names(base), "the original stays as it was")
		})
	}
}

// DESIGN.md, section 3: what Stages gives out is not the chain's own memory.
func TestAChainCannotBeChangedThroughItsStages(t *testing.T) {
	given := []pipeline.Stage{idle("a"), answers("b", "b")}
	c := chain(t, route, given...)
	given[1] = answers("c", "c")
	c.Stages()[0] = idle("d")
	require.Equal(t, []string{"a", "b"}, names(c))
	m := &memory{}
	require.NoError(t, c.Serve(m))
	require.Equal(t, "b", m.body())
}

// DESIGN.md, section 1: stages run in order, and get control back in the opposite one.
func TestStagesRunInsideEachOther(t *testing.T) {
	var order []string
	around := func(name string) pipeline.Stage {
		return stage(name, func(x *pipeline.Exchange, next pipeline.Next) error {
			order = append(order, "into "+name)
			defer func() { order = append(order, "out of "+name) }()
			return next(x)
		})
	}
	altered, err := chain(t, route, around("a"), answers("end", "")).After("a", around("b"))
	require.NoError(t, err)
	require.NoError(t, altered.Serve(&memory{}))
	require.Equal(t, []string{"into a", "into b", "out of b", "out of a"}, order)
}
