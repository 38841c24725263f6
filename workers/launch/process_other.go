//go:build !unix

package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// Without process groups the worker alone is ended, at once.

func tie(*exec.Cmd) {}

func signalGroup(leader *os.Process, _ syscall.Signal) { _ = leader.Kill() }
