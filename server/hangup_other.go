//go:build !linux

package server

// hangups watches nothing on this platform: net/http's background read finds out who leaves.
type hangups struct{ over chan struct{} }

type place struct{}

func newHangups() (*hangups, error) { return &hangups{make(chan struct{})}, nil }

func (h *hangups) close()       { close(h.over) }
func (*hangups) add(*conn) bool { return false }
func (*hangups) remove(*conn)   {}
func (h *hangups) run()         { <-h.over }
