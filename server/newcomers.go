package server

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// silentPatience is how long a connection may be there without a byte when the gateway drains: the first request of one that was opened at
// the last moment is on its way.
const silentPatience = time.Second

// newcomers are connections on which no request has begun. A server that shuts down waits 5 s for them, of which some never say a word:
// those that load balancers open to be ready.
type newcomers struct {
	mu  sync.Mutex
	all map[*conn]time.Time // since when
}

// note keeps in mind what a connection waits for.
func (n *newcomers) note(c net.Conn, s http.ConnState) {
	own := ownConn(c)
	if own == nil {
		return
	}
	if was := own.note(s); was != http.StateNew { // no lock for requests but the first
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == http.StateNew {
		n.all[own] = time.Now()
	} else {
		delete(n.all, own)
	}
}

// dismiss closes those that stay silent, until over ends.
func (n *newcomers) dismiss(over <-chan struct{}) {
	tick := time.NewTicker(silentPatience / 10)
	defer tick.Stop()
	for {
		for _, c := range n.silent() {
			_ = c.Close()
		}
		select {
		case <-over:
			return
		case <-tick.C:
		}
	}
}

func (n *newcomers) silent() (list []*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, since := range n.all {
		if !c.heard.Load() && time.Since(since) > silentPatience {
			list = append(list, c)
		}
	}
	return list
}
