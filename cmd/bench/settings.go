package main

import (
	"fmt"
	"slices"
	"time"
)

// settings are the flags that all benchmarks have.
type settings struct {
	Only     []string      `help:"Peers to run, of: direct, nginx, haproxy, smg, smg-1.13.0, sglang-router, vllm-router, caddy, traefik. direct always runs. Default: all that are installed." placeholder:"NAME,..."`
	Peers    string        `help:"Folder with the virtual environments that peers.sh makes." default:".cache/peers" env:"SMG_BENCH_PEERS" type:"path"`
	SMG      string        `name:"smg" help:"The smg binary to measure. Default: built from cmd/smg." type:"existingfile" placeholder:"PATH"`
	Duration time.Duration `help:"How long each row is measured in each round." default:"5s"`
	Warmup   time.Duration `help:"How long load runs before it is measured." default:"500ms"`
	Idle     time.Duration `help:"How long a peer is left alone after its start before its idle memory is read." default:"2s"`
	Rounds   int           `help:"How often each peer is started and measured; the median is reported." default:"3"`
	JSON     string        `name:"json" help:"Also write the report as JSON; - is standard output, the tables then go to standard error." placeholder:"FILE|-"`
	Short    bool          `help:"A smoke run of less than a minute: direct, nginx and smg, one load, one round of 1 s."`
}

// shorten puts the values of --short in place.
func (s *settings) shorten() {
	s.Duration, s.Warmup, s.Idle, s.Rounds = time.Second, 200*time.Millisecond, time.Second, 1
	if len(s.Only) == 0 {
		s.Only = []string{"nginx", "smg"}
	}
}

// check reports the first setting that cannot be run.
func (s *settings) check() error {
	if s.Rounds < 1 {
		return fmt.Errorf("--rounds must be at least 1, it is %d", s.Rounds)
	}
	if s.Duration < 100*time.Millisecond {
		return fmt.Errorf("--duration must be at least 100ms, the resolution of CPU times is 10ms; it is %s", s.Duration)
	}
	for _, name := range s.Only {
		if name != directName && !slices.ContainsFunc(peers, func(p peer) bool { return p.name == name }) {
			return fmt.Errorf("--only names %q, which is no peer", name)
		}
	}
	return nil
}

// wants reports whether the peer was asked for.
func (s *settings) wants(name string) bool {
	return len(s.Only) == 0 || slices.Contains(s.Only, name)
}

// positive reports whether all numbers of a list flag can be run.
func positive(flag string, numbers []int) error {
	for _, n := range numbers {
		if n < 1 {
			return fmt.Errorf("%s takes numbers of at least 1, not %d", flag, n)
		}
	}
	return nil
}
