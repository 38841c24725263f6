package pipeline

import "sync"

// Fact is something that a stage finds out and that others build on. The facts of this package are fields of the [Exchange];
// a program adds facts of its own with [NewFact].
type Fact interface {
	// Name is what errors and `smg pipelines` call the fact.
	Name() string
	usualGiver() string // the stage that gives it in most chains; "" if there is no such stage
}

// builtin is a fact that is a field of the exchange.
type builtin struct{ name, giver string }

func (f *builtin) Name() string       { return f.name }
func (f *builtin) usualGiver() string { return f.giver }

// The facts that the stages of smg work with, and the field of the [Exchange] that each stands for.
var (
	RequestID  Fact = &builtin{"request_id", "request_id"}   // Exchange.ID
	Tenant     Fact = &builtin{"tenant", "tenant"}           // Exchange.Tenant
	BodyPath   Fact = &builtin{"body_path", "buffer"}        // Exchange.Body.Streamed: whether the body is read before a worker is chosen
	Body       Fact = &builtin{"body", "body"}               // Exchange.Body
	Model      Fact = &builtin{"model", "model"}             // Exchange.Model
	Prompt     Fact = &builtin{"prompt", "prompt"}           // Exchange.Prompt, filled only while a live policy asks for it
	Key        Fact = &builtin{"routing_key", "routing_key"} // Exchange.Key
	Pool       Fact = &builtin{"pool", "candidates"}         // Exchange.Pool
	Candidates Fact = &builtin{"candidates", "candidates"}   // Exchange.Candidates
	Target     Fact = &builtin{"target", "policy"}           // Exchange.Legs
)

// TypedFact is a fact of a program that builds on this package.
type TypedFact[T any] struct {
	name  string
	index int // place of its cell in every exchange
}

var facts struct {
	mu   sync.Mutex
	made int
}

// NewFact makes a fact with a value of type T. Facts are made once, as package variables. The value lives as long as the
// request; reading and writing it costs no look-up and no allocation.
func NewFact[T any](name string) *TypedFact[T] {
	facts.mu.Lock()
	defer facts.mu.Unlock()
	f := &TypedFact[T]{name: name, index: facts.made}
	facts.made++
	return f
}

// Name is the fact's name.
func (f *TypedFact[T]) Name() string { return f.name }

func (f *TypedFact[T]) usualGiver() string { return "" }

// cell holds one fact's value in one exchange; it is made at the first use and reused with the exchange.
type cell[T any] struct {
	value T
	set   bool
}

func (c *cell[T]) clear() { *c = cell[T]{} }

type clearer interface{ clear() }

// Set gives the fact a value for this request.
func (f *TypedFact[T]) Set(x *Exchange, v T) {
	*f.Fill(x) = v
}

// Fill is the place of the fact's value, to be filled in: for values that are too large to copy around. The fact counts as set.
func (f *TypedFact[T]) Fill(x *Exchange) *T {
	for len(x.cells) <= f.index {
		x.cells = append(x.cells, nil)
	}
	c, ok := x.cells[f.index].(*cell[T])
	if !ok {
		c = &cell[T]{}
		x.cells[f.index] = c
	}
	c.set = true
	return &c.value
}

// Get is the fact's value, the zero value if it was not set.
func (f *TypedFact[T]) Get(x *Exchange) T {
	v, _ := f.Lookup(x)
	return v
}

// Lookup is the fact's value and whether it was set for this request.
func (f *TypedFact[T]) Lookup(x *Exchange) (v T, ok bool) {
	if f.index >= len(x.cells) {
		return v, false
	}
	c, made := x.cells[f.index].(*cell[T])
	if !made {
		return v, false
	}
	return c.value, c.set
}
