package launch

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"syscall"
)

const (
	maxPort = 1<<16 - 1
	// maxGap is the most by which a port is above the one before it. The gap is random, so that two starts at the same time on
	// one host part ways.
	maxGap = 5
)

// port is one that a worker will listen on.
type port struct {
	number int
	held   io.Closer // keeps other smg processes away from it
}

// freePorts returns n ports of host, from base upwards, that nobody listens on and no other smg has chosen. Another program may
// still take one before its worker does. The error is a host that is not this one's, or that no port is left.
func freePorts(host string, base, n int, taken []int) (ports []port, err error) {
	defer func() {
		if err != nil {
			release(ports)
			ports = nil
		}
	}()
	for number := base; len(ports) < n; number++ {
		if number > maxPort {
			return ports, fmt.Errorf("no free ports for %d workers from %d upwards", n, base)
		}
		if slices.Contains(taken, number) {
			continue
		}
		held := reserve(number)
		if held == nil {
			continue
		}
		free, err := isFree(host, number)
		if !free {
			_ = held.Close()
		}
		if err != nil {
			return ports, err
		}
		if free {
			ports = append(ports, port{number, held})
			number += rand.IntN(maxGap)
		}
	}
	return ports, nil
}

func release(ports []port) {
	for _, p := range ports {
		_ = p.held.Close()
	}
}

func isFree(host string, number int) (bool, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(number)))
	switch {
	case err == nil:
		return true, l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return false, nil
	default:
		return false, fmt.Errorf("workers cannot listen on %s: %w", host, err)
	}
}
