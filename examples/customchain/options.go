package main

import (
	"flag"
	"fmt"
	"io"

	"github.com/smg-go/smg/workers"
)

// options are the command line.
type options struct {
	port     int
	tenants  string
	shared   []string // URLs of workers
	reserved []string // of those that only premium tenants use
}

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("customchain", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&o.port, "port", 30080, "port on 127.0.0.1; 0 takes a free one")
	f.StringVar(&o.tenants, "tenants", "examples/customchain/tenants.txt", "file with a line for each tenant: name and tier")
	f.Func("worker", "URL of a worker for everybody; may be repeated. Without any worker, three mock engines are started", appendTo(&o.shared))
	f.Func("reserved", "URL of a worker for premium tenants; may be repeated", appendTo(&o.reserved))
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("what is %q? There are flags alone", f.Arg(0))
	}
	return o, nil
}

func appendTo(list *[]string) func(string) error {
	return func(url string) error {
		if _, err := workers.ParseEndpoint(url); err != nil {
			return err
		}
		*list = append(*list, url)
		return nil
	}
}

// specs are what the workers are registered with.
func (o *options) specs() (specs []workers.Spec) {
	for _, url := range o.shared {
		specs = append(specs, workers.NewSpec(url))
	}
	for _, url := range o.reserved {
		s := workers.NewSpec(url)
		s.Labels = map[string]string{reservedLabel: premium}
		specs = append(specs, s)
	}
	return specs
}
