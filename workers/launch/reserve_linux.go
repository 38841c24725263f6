package launch

import (
	"fmt"
	"io"
	"net"
)

// reserve keeps other smg processes from choosing the port: an engine may take minutes until it binds it, and whoever sat there
// meanwhile would be taken for the engine. It is nil if another has it. A name in the abstract namespace is as wide as
// the ports are, the network namespace, and is gone with the process.
func reserve(port int) io.Closer {
	l, err := net.Listen("unix", fmt.Sprintf("@smg-serve-port-%d", port))
	if err != nil {
		return nil
	}
	return l
}
