package main

import (
	"net"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// startEngine starts a mock engine for somebody without a real one.
func startEngine() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	mock := engine.New(engine.Config{Models: []string{"demo"}})
	go func() { _ = mock.Serve(l) }() // ends with the listener
	return "http://" + l.Addr().String(), func() { _ = l.Close(); mock.Close() }, nil
}
