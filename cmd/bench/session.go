package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// probe reports why the peer at the address does not serve yet.
type probe func(ctx context.Context, addr string) error

// session is one run of a benchmark: the engine, and the peers in turn.
type session struct {
	settings
	fleet
	dir      string // temporary
	probe    probe
	progress io.Writer
	targets  []*target
}

// newSession makes the temporary folder; close takes it away.
func newSession(s settings, progress io.Writer, p probe) (*session, error) {
	dir, err := os.MkdirTemp("", "smg-bench-")
	if err != nil {
		return nil, err
	}
	return &session{settings: s, dir: dir, progress: progress, probe: p}, nil
}

func (s *session) close() { os.RemoveAll(s.dir) }

// target is a peer that was asked for, or the engine without one.
type target struct {
	peer
	path string // empty if the peer is not installed, and for the engine itself
	info peerInfo
}

func (t *target) direct() bool { return t.name == directName }

// open looks for the peers.
func (s *session) open(ctx context.Context) error {
	s.targets = []*target{{peer: peer{name: directName}, info: peerInfo{Name: directName, Installed: true}}}
	for _, p := range peers {
		if !s.wants(p.name) {
			continue
		}
		t := &target{peer: p, info: peerInfo{Name: p.name}}
		path, err := s.find(ctx, p)
		switch {
		case err == nil:
			t.path, t.info.Installed, t.info.Version = path, true, p.versionOf(ctx, path)
		case !errors.Is(err, errNotInstalled):
			return err
		}
		s.targets = append(s.targets, t)
	}
	return nil
}

func (s *session) find(ctx context.Context, p peer) (string, error) {
	switch {
	case p.name != smgName:
		return p.find(s.Peers)
	case s.SMG != "":
		return filepath.Abs(s.SMG)
	default:
		fmt.Fprintln(s.progress, "building smg")
		return buildSMG(ctx, s.dir)
	}
}

// measurement is a load that every peer is measured under. run calls before and after at the two ends of the measured part.
type measurement struct {
	load loadName
	run  func(ctx context.Context, addr string, before, after func()) (measured, error)
}

// rounds measures every load through every peer that is installed, as often as was asked for.
func (s *session) rounds(ctx context.Context, loads []measurement, r *report) error {
	for round := range s.Rounds {
		for _, t := range s.targets {
			if !t.info.Installed {
				continue
			}
			fmt.Fprintf(s.progress, "round %d of %d: %s\n", round+1, s.Rounds, t.name)
			if err := s.turn(ctx, t, loads, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn starts a peer, measures it and stops it.
func (s *session) turn(ctx context.Context, t *target, loads []measurement, r *report) error {
	addr, pid := s.engine, 0
	if !t.direct() {
		p, err := launch(ctx, t.peer, t.path, s.fleet, s.dir, s.probe)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // one peer that does not start must not take the figures of all others along
			fmt.Fprintf(s.progress, "  does not start: %v\n", err)
			t.info.Failure = err.Error()
			return nil
		}
		defer p.stop()
		addr, pid = p.addr, p.cmd.Process.Pid
		if !sleepUntil(ctx, time.Now().Add(s.Idle)) {
			return ctx.Err()
		}
		u, err := treeUsage(pid)
		if err != nil {
			return err
		}
		r.idle[t.name] = append(r.idle[t.name], mebibytes(u.RSS))
	}
	for _, m := range loads {
		sample, err := sampleOf(ctx, m, addr, pid)
		if err != nil {
			return err
		}
		r.add(t.name, m.load, sample)
		fmt.Fprintf(s.progress, "  %s: %s\n", m.load, sample)
	}
	return nil
}

// sampleOf takes one measurement; pid is that of the peer, or 0 if there is none.
func sampleOf(ctx context.Context, m measurement, addr string, pid int) (sample, error) {
	var start, end usage
	var failure error
	read := func(u *usage) func() {
		return func() {
			if pid == 0 {
				return
			}
			var err error
			if *u, err = treeUsage(pid); err != nil {
				failure = fmt.Errorf("the peer's processes cannot be read: %w", err)
			}
		}
	}
	if pid != 0 {
		resetPeak(pid)
	}
	got, err := m.run(ctx, addr, read(&start), read(&end))
	if err != nil {
		return sample{}, err
	}
	if failure != nil {
		got.fail(failure)
	}
	return newSample(got, start, end, pid != 0), nil
}
