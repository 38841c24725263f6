// Package policy chooses the worker that serves a request best.
//
// A [Policy] gets the list of the workers that may be chosen and returns one of them. It keeps books of its own if it must, and
// is shared by all requests of its models. Policies are made by name ([New]) with the operator's [Settings]; a [Set] holds the
// default policy and one for each model whose workers ask for another by label, and follows the models as workers come and go.
//
// A policy is one file: what it does and costs, its constructor, its type, Select. A new one joins the table in names.go; the
// conformance test then runs over it.
package policy
