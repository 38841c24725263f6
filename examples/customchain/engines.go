package main

import (
	"net"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// startEngines starts mock engines for somebody without real ones: two shared workers and a reserved one.
func (o *options) startEngines() (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, e := range []struct {
		name string
		list *[]string
	}{{"shared-1", &o.shared}, {"shared-2", &o.shared}, {"reserved-1", &o.reserved}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, err
		}
		mock := engine.New(engine.Config{Name: e.name, Models: []string{"demo"}})
		go func() { _ = mock.Serve(l) }() // ends with the listener
		stops = append(stops, func() { _ = l.Close(); mock.Close() })
		*e.list = append(*e.list, "http://"+l.Addr().String())
	}
	return stop, nil
}
