package stages

import "github.com/smg-go/smg/pipeline"

// InFlight counts the request, and its routing key if it has one, as in flight with the chosen workers until everything behind it
// is over: the response body relayed to its last byte, or failed, or the client gone.
func InFlight() pipeline.Stage { return inFlight{} }

type inFlight struct{}

var (
	_ pipeline.Stage      = inFlight{}
	_ pipeline.Contracted = inFlight{}
)

func (inFlight) Name() string { return "in_flight" }

func (inFlight) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target}}
}

func (inFlight) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	for i := range x.Legs.Len() {
		x.Legs.At(i).Key = x.Key.Value
	}
	x.Legs.Begin()
	defer x.Legs.End() // deferred: a panic behind this stage gives the counts back too; a leg that ended early counts once
	return next(x)
}
