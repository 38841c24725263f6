package pipeline_test

import (
	"fmt"

	"github.com/smg-go/smg/pipeline"
)

// A stage of your own says what it needs; a chain in which nobody gives that is refused, with a sentence about what to do.
func ExampleAssemble() {
	model := pipeline.StageFunc("model", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Model}},
		func(x *pipeline.Exchange, next pipeline.Next) error {
			x.Model = "llama"
			return next(x)
		})
	greet := pipeline.StageFunc("greet", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Model}},
		func(x *pipeline.Exchange, _ pipeline.Next) error {
			text := "I am " + x.Model
			if err := x.WriteHead(200, int64(len(text)), nil); err != nil {
				return pipeline.ErrClientGone
			}
			_, err := x.Client.Write([]byte(text))
			return err
		})

	_, err := pipeline.Assemble("GET /who", greet)
	fmt.Println(err)

	chain, err := pipeline.Assemble("GET /who", model, greet)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &memory{} // any pipeline.Client; a server has one for each request
	err = chain.Serve(client)
	fmt.Println(client.body(), err)
	// Output:
	// GET /who: stage "greet" needs "model", which no stage before it gives; put stage "model" before it
	// I am llama <nil>
}

// tier is a fact of this program: made once, as a package variable.
var tier = pipeline.NewFact[string]("tier")

// A program's own facts have types, and are checked like those of smg.
func ExampleNewFact() {
	classify := pipeline.StageFunc("classify", pipeline.Contract{Gives: []pipeline.Fact{tier}},
		func(x *pipeline.Exchange, next pipeline.Next) error {
			tier.Set(x, "gold")
			return next(x)
		})
	refuse := pipeline.StageFunc("refuse", pipeline.Contract{Needs: []pipeline.Fact{tier}},
		func(x *pipeline.Exchange, _ pipeline.Next) error {
			return &pipeline.Error{Status: 403, Code: "tier_closed", Message: "No more " + tier.Get(x) + " today"}
		})

	chain, err := pipeline.Assemble("POST /buy", classify, refuse)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(chain.Serve(&memory{}))

	_, err = chain.Without("classify")
	fmt.Println(err)
	// Output:
	// tier_closed: No more gold today
	// POST /buy: stage "refuse" needs "tier", which no stage before it gives; put a stage that gives it before "refuse"
}
