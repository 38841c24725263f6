package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// tick is the unit of the times in /proc/PID/stat: the kernel's USER_HZ, which is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// usage is what a process tree has consumed.
type usage struct {
	CPU  time.Duration // user and system time since the start
	RSS  int64         // bytes resident now
	Peak int64         // bytes resident at most, since the start or the last resetPeak; summed over the processes
}

// stat is the part of /proc/PID/stat that is needed here.
type stat struct {
	pid, parent int
	cpu         time.Duration // its own and that of the children it has waited for
}

// treeUsage adds up the process with this id and all its descendants. A process that ends meanwhile is left out; its time
// is then part of its parent's.
func treeUsage(root int) (usage, error) {
	stats, err := processTree("/proc", root)
	if err != nil {
		return usage{}, err
	}
	var sum usage
	for _, s := range stats {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
		if err != nil {
			continue
		}
		sum.CPU += s.cpu
		sum.RSS += statusBytes(text, "VmRSS")
		sum.Peak += statusBytes(text, "VmHWM")
	}
	return sum, nil
}

// resetPeak makes the kernel forget the peak of each process of the tree. It is allowed for one's own processes; where it is
// not, the peak stays that of the whole life.
func resetPeak(root int) {
	stats, _ := processTree("/proc", root)
	for _, s := range stats {
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid), []byte("5"), 0)
	}
}

// processTree returns root and its descendants. Where there is no /proc it returns errors.ErrUnsupported.
func processTree(proc string, root int) ([]stat, error) {
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if len(files) == 0 {
		return nil, fmt.Errorf("no processes in %s: %w", proc, errors.ErrUnsupported)
	}
	children := map[int][]stat{}
	var tree []stat
	for _, f := range files {
		text, _ := os.ReadFile(f)
		s, err := parseStat(text)
		if err != nil {
			continue // it has ended since
		}
		if s.pid == root {
			tree = append(tree, s)
		}
		children[s.parent] = append(children[s.parent], s)
	}
	if len(tree) == 0 {
		return nil, fmt.Errorf("process %d: %w", root, fs.ErrNotExist)
	}
	for i := 0; i < len(tree); i++ { // grows while it is walked
		tree = append(tree, children[tree[i].pid]...)
	}
	return tree, nil
}

// parseStat reads a line of /proc/PID/stat. The name, in parentheses, may hold blanks and parentheses itself, so the fields
// are counted from its last ")".
func parseStat(line []byte) (stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return stat{}, errors.New("no name in parentheses")
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	if err != nil {
		return stat{}, err
	}
	fields := bytes.Fields(line[end+1:]) // from field 3 of proc(5) on: state, ppid, ...
	if len(fields) < 15 {
		return stat{}, fmt.Errorf("%d fields behind the name, 15 are needed", len(fields))
	}
	s := stat{pid: pid}
	if s.parent, err = strconv.Atoi(string(fields[1])); err != nil {
		return stat{}, err
	}
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(n) * tick
	}
	return s, nil
}

// statusBytes returns a value of /proc/PID/status that is given in kB, in bytes; 0 if it is not there, as for a process that
// has ended.
func statusBytes(text []byte, name string) int64 {
	for line := range bytes.Lines(text) {
		value, found := bytes.CutPrefix(line, []byte(name+":"))
		if !found {
			continue
		}
		number, _, _ := bytes.Cut(bytes.TrimSpace(value), []byte(" "))
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return 0
}
