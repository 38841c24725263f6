package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Chain is the assembled way of a route's requests. It never changes; the methods that alter it give a new one, checked again.
type Chain struct {
	options
	route   string
	stages  []Stage
	entry   Next
	timed   Next                    // entry for requests whose stages are timed; nil without a tracer
	runtime atomic.Pointer[Runtime] // who supervises detached work; set when the chain is served
}

// options are what a chain has beside its stages, and what chains made from it keep.
type options struct {
	form   Form
	tracer Tracer
}

// Assemble puts the stages of a route together, outermost first, and checks them: names are unique, and every fact that a
// stage needs is given by a stage before it. It starts nothing. The error says what is wrong and what to do about it.
func Assemble(route string, stages ...Stage) (*Chain, error) {
	return assemble(route, options{}, stages)
}

func assemble(route string, o options, stages []Stage) (*Chain, error) {
	if err := check(route, stages); err != nil {
		return nil, err
	}
	c := &Chain{route: route, stages: slices.Clone(stages), options: o}
	c.entry = c.linked(link)
	if o.tracer != nil {
		c.timed = c.linked(timedLink)
	}
	return c, nil
}

// linked puts the stages together by a link for each.
func (c *Chain) linked(link func(int, Stage, Next) Next) Next {
	next := Next(func(*Exchange) error { return nil })
	for i, s := range slices.Backward(c.stages) {
		next = link(i, s, next)
	}
	return next
}

func link(_ int, s Stage, next Next) Next {
	return func(x *Exchange) error { return s.Handle(x, next) }
}

// check gathers everything that is wrong, so that a person mends it in one go.
func check(route string, stages []Stage) error {
	var wrong []error
	place := map[string]int{}
	given := map[Fact]bool{}
	uses := map[string]Dependency{}
	for i, s := range stages {
		if s == nil {
			wrong = append(wrong, fmt.Errorf("%s: stage %d is nil; leave it out", route, i+1))
			continue
		}
		if at, taken := place[s.Name()]; taken {
			wrong = append(wrong, fmt.Errorf("%s: stages %d and %d are both named %q; a chain has each stage once", route, at+1, i+1, s.Name()))
		}
		place[s.Name()] = i
		contract := ContractOf(s)
		for _, f := range contract.Needs {
			if !given[f] {
				wrong = append(wrong, missing(route, stages, i, f))
			}
		}
		for _, f := range contract.Gives {
			given[f] = true
		}
		for _, d := range contract.Uses {
			if other, known := uses[d.Name()]; known && other != d {
				wrong = append(wrong, fmt.Errorf("%s: stage %q uses a dependency named %q, and so does a stage before it, but not the same one; share one value", route, s.Name(), d.Name()))
			}
			uses[d.Name()] = d
		}
	}
	return errors.Join(wrong...)
}

// missing is the sentence about a fact that nobody gives in time: route, stage, fact, and what to add or move.
func missing(route string, stages []Stage, at int, f Fact) error {
	name := stages[at].Name()
	for _, later := range stages[at+1:] {
		if slices.Contains(ContractOf(later).Gives, f) {
			return fmt.Errorf("%s: stage %q needs %q, which stage %q gives, but behind it; move stage %q before %q",
				route, name, f.Name(), later.Name(), later.Name(), name)
		}
	}
	if giver := f.usualGiver(); giver != "" && giver != name {
		return fmt.Errorf("%s: stage %q needs %q, which no stage before it gives; put stage %q before it", route, name, f.Name(), giver)
	}
	return fmt.Errorf("%s: stage %q needs %q, which no stage before it gives; put a stage that gives it before %q", route, name, f.Name(), name)
}

// Route is the route that the chain was assembled for, such as "POST /generate".
func (c *Chain) Route() string { return c.route }

// Stages are the chain's stages, outermost first.
func (c *Chain) Stages() []Stage { return slices.Clone(c.stages) }

// WithForm gives a chain whose errors have another form than [OpenAIForm].
func (c *Chain) WithForm(f Form) *Chain {
	return c.with(options{f, c.tracer})
}

// Traced gives a chain whose requests a tracer records.
func (c *Chain) Traced(t Tracer) *Chain {
	return c.with(options{c.form, t})
}

func (c *Chain) with(o options) *Chain {
	other, _ := assemble(c.route, o, c.stages) // the stages were checked before
	return other
}

// Before gives a chain with a stage in front of the named one.
func (c *Chain) Before(name string, s Stage) (*Chain, error) { return c.edit(name, 0, 0, s) }

// After gives a chain with a stage behind the named one.
func (c *Chain) After(name string, s Stage) (*Chain, error) { return c.edit(name, 1, 1, s) }

// Replace gives a chain with a stage in the place of the named one.
func (c *Chain) Replace(name string, s Stage) (*Chain, error) { return c.edit(name, 0, 1, s) }

// Without gives a chain without the named stage.
func (c *Chain) Without(name string) (*Chain, error) { return c.edit(name, 0, 1) }

// Until gives a chain that ends with the named stage: what it finds out can be looked at, nothing is forwarded.
func (c *Chain) Until(name string) (*Chain, error) {
	i, err := c.find(name)
	if err != nil {
		return nil, err
	}
	return assemble(c.route, c.options, c.stages[:i+1])
}

// edit replaces the stages from the named one plus from, to the named one plus to.
func (c *Chain) edit(name string, from, to int, with ...Stage) (*Chain, error) {
	i, err := c.find(name)
	if err != nil {
		return nil, err
	}
	return assemble(c.route, c.options, slices.Concat(c.stages[:i+from], with, c.stages[i+to:]))
}

func (c *Chain) find(name string) (int, error) {
	var names []string
	for i, s := range c.stages {
		if s.Name() == name {
			return i, nil
		}
		names = append(names, s.Name())
	}
	return 0, fmt.Errorf("%s: there is no stage %q; the chain has %s", c.route, name, strings.Join(names, ", "))
}

// Serve takes one request through the chain. When it returns, the request is over: answered to its last byte, broken, or left
// by the client. The error is for the record; the client has been answered.
func (c *Chain) Serve(client Client) error {
	x := exchanges.Get().(*Exchange)
	x.Client = client
	err := c.Run(x)
	x.reset()
	exchanges.Put(x)
	return err
}

// Run is Serve with an exchange of the caller's, who can set Explain and DryRun before and look at what was found out after.
// An exchange of the caller's is for one request.
func (c *Chain) Run(x *Exchange) error {
	x.chain = c
	if x.Arrived.IsZero() {
		x.Arrived = time.Now()
	}
	if c.tracer == nil {
		return x.Conclude(c.entry)
	}
	return c.traced(x)
}
