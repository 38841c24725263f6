package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/server"
)

// doctorCmd is the parent of what is found out for an operator.
type doctorCmd struct {
	Kubernetes doctorKubernetesCmd `cmd:"" help:"Say whether smg can follow pods here, which pods are its workers, and why others are not."`
}

// doctorKubernetesCmd looks at a cluster as a gateway with the same flags would, without serving. It takes all flags of the gateway,
// so that a command line can be tried as it is.
type doctorKubernetesCmd struct {
	settings
	Timeout server.Seconds `name:"timeout" default:"10" help:"Seconds that the API server gets for all answers (at least 1)."`
	All     bool           `name:"all" help:"Print every pod in the namespaces, not just those that match --selector and some that do not."`
	JSON    bool           `name:"json" help:"Print what was found as JSON."`
}

// errToDo ends a run that has found something.
var errToDo = errors.New("an operator has something to do, see above")

// Run looks, and prints what it finds. It fails if there is something to do.
func (d *doctorKubernetesCmd) Run(c *cli) error {
	if err := d.ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.Timeout.Duration())
	defer cancel()
	pods := d.Pods()
	found, err := discovery.Examine(ctx, pods)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s has not answered everything within %ds", found.Server, d.Timeout)
	case err != nil:
		return fmt.Errorf("the API server cannot be asked: %w", err)
	}
	if d.JSON {
		e := json.NewEncoder(c.stdout)
		e.SetIndent("", "  ")
		err = e.Encode(found)
	} else {
		err = writeExamination(c.stdout, &found, pods, d.All)
	}
	if err == nil && len(found.Problems) > 0 {
		err = errToDo
	}
	return err
}

// ready checks the configuration as it would be with discovery, whether or not a flag turns it on.
func (d *doctorKubernetesCmd) ready() error {
	if d.Timeout < 1 {
		return invalid{{Flag: "--timeout", Value: fmt.Sprint(d.Timeout), Reason: "must be at least 1"}}
	}
	if d.Provider != nil && *d.Provider == "file" {
		return invalid{{Flag: "--discovery-provider", Value: "file", Reason: "finds workers in a file, and there is nothing to look at in Kubernetes"}}
	}
	d.ServiceDiscovery = true
	return d.valid()
}
