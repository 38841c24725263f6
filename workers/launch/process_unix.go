//go:build unix

package launch

import (
	"os"
	"os/exec"
	"syscall"
)

// tie gives the worker a session and process group of its own, so that a Ctrl-C in the terminal does not reach it before the
// gateway has drained, and so that it can be ended with all its children.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	tieToParent(cmd.SysProcAttr)
}

// signalGroup sends a signal to what is left of the worker's group.
func signalGroup(leader *os.Process, sig syscall.Signal) { _ = syscall.Kill(-leader.Pid, sig) }
