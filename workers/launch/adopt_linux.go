package launch

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// adoptLimit is how long processes that were killed are waited for. One that hangs in a driver may never go.
const adoptLimit = 5 * time.Second

// tieToParent has the kernel end the worker should this process be killed. The signal is SIGTERM, so that it can end its
// own children in turn.
func tieToParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }

// adoptOrphans makes this process the parent of whatever its descendants leave behind, instead of init.
func adoptOrphans() error {
	const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("prctl(PR_SET_CHILD_SUBREAPER): %w", errno)
	}
	return nil
}

// killChildren ends all children of this process and, as those become its own, their descendants. It returns how many there
// were, and whether they are gone.
func killChildren() (killed int, gone bool) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(adoptLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		children := childrenOf(os.Getpid())
		if len(children) == 0 {
			return len(seen), true
		}
		for _, pid := range children {
			if ended, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); ended == 0 {
				seen[pid] = true
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	return len(seen), false
}

// childrenOf are the processes whose parent is pid, those that have ended but were not waited for included.
func childrenOf(pid int) (children []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		if child, parent, ok := parseStat(text); ok && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// parseStat reads a line of /proc/PID/stat. The name, in parentheses, may hold anything, so the fields are counted from its
// last ")": state, parent, ...
func parseStat(line []byte) (pid, parent int, ok bool) {
	id, _, _ := bytes.Cut(line, []byte(" "))
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) < 2 {
		return 0, 0, false
	}
	pid, err := strconv.Atoi(string(id))
	if err != nil {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return pid, parent, err == nil
}
