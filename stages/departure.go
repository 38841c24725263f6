package stages

import (
	"sync"

	"github.com/smg-go/smg/pipeline"
)

// departing tells a stage that waits that the client has left.
type departing struct {
	c      chan struct{} // closed when it has
	once   sync.Once
	client pipeline.Client
}

// watchDeparture watches the client until end.
func watchDeparture(c pipeline.Client) *departing {
	d := &departing{c: make(chan struct{}), client: c}
	c.Watch(d)
	return d
}

func (d *departing) end() { d.client.Unwatch(d) }

// ClientGone closes the channel.
func (d *departing) ClientGone() { d.once.Do(func() { close(d.c) }) }
