package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	// startLimit is how long a peer may take until it serves; those in Python need seconds.
	startLimit = 60 * time.Second
	// stopLimit is how long a peer may take to end by itself. Some wait for clients that are long gone.
	stopLimit = 3 * time.Second
)

// process is a running child: the engine or a peer.
type process struct {
	cmd    *exec.Cmd
	addr   string        // where it listens
	log    string        // file with what it prints
	exited chan struct{} // closed when it has ended
}

// start runs a program in dir, which also gets its output.
func start(path string, args []string, dir, addr string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(path, args...), addr: addr, log: log.Name(), exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, log, log
	// Some gateways would send requests for loopback through a proxy of the environment; Caddy wants a home.
	p.cmd.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "HOME="+dir)
	tie(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// stop ends the process and its children, and returns when it has ended.
func (p *process) stop() {
	terminate(p.cmd)
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
	}
	kill(p.cmd)
	<-p.exited
}

// output returns the end of what the process has printed.
func (p *process) output() string {
	text, _ := os.ReadFile(p.log)
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

var errEnded = errors.New("it has ended")

// await returns as soon as probe succeeds. It gives up when the process ends, or does not serve in time.
func (p *process) await(ctx context.Context, probe probe) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := probe(ctx, p.addr)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%w: %s", errEnded, p.output())
		case <-ctx.Done():
			return fmt.Errorf("it does not serve (%w): %s", errors.Join(ctx.Err(), err), p.output())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freePorts returns ports of 127.0.0.1 that nobody listens on. Another process may take one before it is used, so whoever
// starts something on them tries again with others.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // not before all are known, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// launch starts a peer, or the engine in nginx, and returns when it serves.
func launch(ctx context.Context, p peer, path string, f fleet, dir string, probe probe) (*process, error) {
	var err error
	for range 3 {
		var proc *process
		if proc, err = launchOnce(ctx, p, path, f, dir, probe); err == nil {
			return proc, nil
		}
		if !errors.Is(err, errEnded) {
			break // only one that ended may have found its port taken
		}
	}
	return nil, fmt.Errorf("%s: %w", p.name, err)
}

func launchOnce(ctx context.Context, p peer, path string, f fleet, dir string, probe probe) (*process, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp(dir, p.name+"-")
	if err != nil {
		return nil, err
	}
	s := site{fleet: f, dir: own, config: filepath.Join(own, cmp.Or(p.file, "config")), port: ports[0], spare: ports[1]}
	if p.config != nil {
		if err := os.WriteFile(s.config, []byte(p.config(s)), 0o600); err != nil {
			return nil, err
		}
	}
	proc, err := start(path, p.args(s), own, fmt.Sprintf("127.0.0.1:%d", s.port))
	if err != nil {
		return nil, err
	}
	if err := proc.await(ctx, probe); err != nil {
		proc.stop()
		return nil, err
	}
	return proc, nil
}
