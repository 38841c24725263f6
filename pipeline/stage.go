package pipeline

// Stage is one step in the life of a request.
type Stage interface {
	// Name is the stage's name: unique in a chain, in snake case, used in errors, metrics and spans.
	Name() string

	// Handle does the stage's part and calls next for the rest, or returns without calling it. An error that it returns ends
	// the request with the response that the error stands for, if nothing has been written yet.
	Handle(x *Exchange, next Next) error
}

// Next runs the rest of the chain; it returns when the rest is over, response body included.
type Next func(x *Exchange) error

// Contracted is a stage that declares what it needs and gives. A stage without a contract needs and gives nothing.
type Contracted interface{ Contract() Contract }

// Contract is what a stage needs from the stages before it, what it gives to those behind it, and the background work that it
// relies on.
type Contract struct {
	Needs []Fact
	Gives []Fact
	Uses  []Dependency
}

// ContractOf is the contract of any stage.
func ContractOf(s Stage) Contract {
	if c, ok := s.(Contracted); ok {
		return c.Contract()
	}
	return Contract{}
}

// StageFunc makes a stage of a function, for programs and tests that need one in place.
func StageFunc(name string, c Contract, handle func(x *Exchange, next Next) error) Stage {
	return &stageFunc{name, c, handle}
}

type stageFunc struct {
	name     string
	contract Contract
	handle   func(x *Exchange, next Next) error
}

func (s *stageFunc) Name() string                        { return s.name }
func (s *stageFunc) Contract() Contract                  { return s.contract }
func (s *stageFunc) Handle(x *Exchange, next Next) error { return s.handle(x, next) }
