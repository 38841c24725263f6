package engine

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreePort is a port of 127.0.0.1 that nobody listens on, for a program that has to be told where to listen. It is none of those that
// the system gives to outgoing connections: nobody gets it by chance before the program does, or while that is down for a moment.
func FreePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, errors.New("no free port between 20000 and 32000 on 127.0.0.1")
}
