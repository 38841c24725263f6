package clustertest

import (
	"fmt"
	"net"
	"sync"
)

// addresses hands out 127.x.y.z, each once. The x is this process's own as long as it runs: it listens on 127.x.255.254.
type addresses struct {
	mu    sync.Mutex
	claim net.Listener
	block int // x
	next  int // y and z
}

var own addresses

// IP is an address of 127.0.0.0/8 that no other test has, of this process or another.
func IP(tb TB) string {
	tb.Helper()
	ip, err := own.take()
	if err != nil {
		tb.Fatal(err)
	}
	return ip
}

func (a *addresses) take() (string, error) {
	const perBlock = 255 * 254
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.claimBlock(); err != nil {
		return "", err
	}
	if a.next >= perBlock {
		return "", fmt.Errorf("all addresses of 127.%d.0.0/16 have been handed out", a.block)
	}
	ip := fmt.Sprintf("127.%d.%d.%d", a.block, a.next/254, a.next%254+1)
	a.next++
	return ip, nil
}

// claimBlock takes the first block that no other process has.
func (a *addresses) claimBlock() (err error) {
	for x := 1; a.claim == nil; x++ {
		if x == 255 {
			return fmt.Errorf("no block of 127.0.0.0/8 is free: %w", err)
		}
		a.block = x
		a.claim, err = net.Listen("tcp", fmt.Sprintf("127.%d.255.254:%d", x, Port))
	}
	return nil
}
