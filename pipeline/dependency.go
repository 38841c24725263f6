package pipeline

import "context"

// Dependency is background work that stages rely on: polling, probing, watching. It runs only while some served chain has a
// stage that uses it. The value is its identity, so it is a pointer.
type Dependency interface {
	// Name is the dependency's name, unique among those that are served together.
	Name() string

	// Run works until ctx ends, and calls ready once what stages rely on is there. It returns nil when it has nothing left to
	// do; when it returns an error, or panics, it is started again after a backoff.
	Run(ctx context.Context, ready func()) error
}

// Dependent is a dependency that relies on others, which then run too.
type Dependent interface{ Uses() []Dependency }
