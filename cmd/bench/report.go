package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// loadName says what a row was measured under.
type loadName struct {
	KiB         int `json:"body_kib,omitempty"`
	Connections int `json:"connections,omitempty"`
	Streams     int `json:"streams,omitempty"`
}

func (l loadName) String() string {
	if l.Streams > 0 {
		return fmt.Sprintf("%d streams of %d events/s", l.Streams, eventsPerSecond)
	}
	return fmt.Sprintf("%d KiB, %d connections", l.KiB, l.Connections)
}

// sample is what one round gave for a row.
type sample struct {
	figures map[string]float64 // by key of a metric
	failed  int
	failure error
}

func newSample(m measured, start, end usage, process bool) sample {
	s := sample{figures: map[string]float64{}, failed: m.failed, failure: m.failure}
	if m.count == 0 || m.elapsed == 0 {
		if s.failed == 0 {
			s.failed, s.failure = 1, fmt.Errorf("nothing was answered in time")
		}
		return s
	}
	s.figures["per_second"] = float64(m.count) / m.elapsed.Seconds()
	s.figures["p50_ms"] = milliseconds(percentile(m.took, 0.50))
	s.figures["p99_ms"] = milliseconds(percentile(m.took, 0.99))
	if process {
		s.figures["cpu_us"] = float64(end.CPU-start.CPU) / float64(time.Microsecond) / float64(m.count)
		s.figures["rss_mib"] = mebibytes(end.RSS)
		s.figures["peak_mib"] = mebibytes(end.Peak)
	}
	return s
}

func (s sample) String() string {
	text := fmt.Sprintf("%.0f/s, p50 %.3f ms, p99 %.3f ms", s.figures["per_second"], s.figures["p50_ms"], s.figures["p99_ms"])
	if cpu, found := s.figures["cpu_us"]; found {
		text += fmt.Sprintf(", CPU %.1f µs, RSS %.0f MiB", cpu, s.figures["rss_mib"])
	}
	if s.failed > 0 {
		text += fmt.Sprintf(", %d FAILED: %v", s.failed, s.failure)
	}
	return text
}

// metric is a column of a table.
type metric struct {
	key, title string
	digits     int // behind the point
}

// metricsOf returns the columns for a benchmark that counts this unit: "request" or "event".
func metricsOf(unit string) []metric {
	latency := map[string]string{"request": "", "event": "delay "}[unit]
	return []metric{
		{"per_second", unit + "s/s", 0},
		{"p50_ms", latency + "p50 ms", 3},
		{"p99_ms", latency + "p99 ms", 3},
		{"cpu_us", "CPU µs/" + unit, 1},
		{"rss_mib", "RSS MiB", 1},
		{"peak_mib", "peak MiB", 1},
	}
}

// peerInfo is what is known of a peer beside its rows.
type peerInfo struct {
	Name       string   `json:"name"`
	Version    string   `json:"version,omitempty"`
	Installed  bool     `json:"installed"`
	Failure    string   `json:"failure,omitempty"` // why it did not start
	IdleMiB    *spread  `json:"idle_rss_mib,omitempty"`
	AddedP50Ms *float64 `json:"added_p50_ms,omitempty"` // over direct, with the smallest body on one connection
}

// result is a row of the report: one peer under one load.
type result struct {
	Peer    string            `json:"peer"`
	Load    loadName          `json:"load"`
	Figures map[string]spread `json:"figures"`
	Failed  int               `json:"failed"`
	Failure string            `json:"failure,omitempty"` // the first one
}

// counts reports whether the row may be compared with others.
func (r result) counts() bool { return r.Failed == 0 && len(r.Figures) > 0 }

// report is all that a benchmark has found out.
type report struct {
	Benchmark string     `json:"benchmark"`
	When      time.Time  `json:"when"`
	System    string     `json:"system"`
	CPUs      int        `json:"cpus"`
	Duration  string     `json:"duration"`
	Rounds    int        `json:"rounds"`
	Policy    string     `json:"policy,omitempty"`  // of the gateways, where it is not round_robin
	Engines   int        `json:"engines,omitempty"` // that they see, where it is not one
	Peers     []peerInfo `json:"peers"`
	Results   []result   `json:"results"`
	Reach     []verdict  `json:"reach"`

	unit    string
	loads   []loadName
	idle    map[string][]float64
	samples map[string]map[loadName][]sample // by peer
}

func newReport(benchmark, unit string, s settings) *report {
	return &report{
		Benchmark: benchmark, When: time.Now().UTC().Truncate(time.Second), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPUs: runtime.NumCPU(), Duration: s.Duration.String(), Rounds: s.Rounds,
		unit: unit, idle: map[string][]float64{}, samples: map[string]map[loadName][]sample{},
	}
}

func (r *report) add(peer string, l loadName, s sample) {
	if !slices.Contains(r.loads, l) {
		r.loads = append(r.loads, l)
	}
	if r.samples[peer] == nil {
		r.samples[peer] = map[loadName][]sample{}
	}
	r.samples[peer][l] = append(r.samples[peer][l], s)
}

// finish turns the samples into results.
func (r *report) finish(targets []*target) {
	for _, t := range targets {
		r.Peers = append(r.Peers, t.info)
	}
	for _, l := range r.loads {
		for _, p := range r.Peers {
			if samples := r.samples[p.Name][l]; len(samples) > 0 {
				r.Results = append(r.Results, newResult(p.Name, l, samples))
			}
		}
	}
	for i := range r.Peers {
		p := &r.Peers[i]
		if values := r.idle[p.Name]; len(values) > 0 {
			idle := spreadOf(values)
			p.IdleMiB = &idle
			p.AddedP50Ms = r.addedP50(p.Name)
		}
	}
	r.Reach = reach(r)
}

func newResult(peer string, l loadName, samples []sample) result {
	res := result{Peer: peer, Load: l, Figures: map[string]spread{}}
	values := map[string][]float64{}
	for _, s := range samples {
		for key, v := range s.figures {
			values[key] = append(values[key], v)
		}
		res.Failed += s.failed
		if res.Failure == "" && s.failure != nil {
			res.Failure = s.failure.Error()
		}
	}
	for key, v := range values {
		res.Figures[key] = spreadOf(v)
	}
	return res
}

// addedP50 returns nil unless both the peer and direct have a row on one connection that counts.
func (r *report) addedP50(peer string) *float64 {
	for _, l := range r.loads {
		if l.Connections != 1 || l.KiB != r.loads[0].KiB {
			continue
		}
		mine, ok := r.figure(peer, l, "p50_ms")
		direct, found := r.figure(directName, l, "p50_ms")
		if ok && found {
			added := mine - direct
			return &added
		}
	}
	return nil
}

// figure returns the median of a row that counts.
func (r *report) figure(peer string, l loadName, key string) (float64, bool) {
	for _, res := range r.Results {
		if res.Peer == peer && res.Load == l && res.counts() {
			s, found := res.Figures[key]
			return s.Median, found
		}
	}
	return 0, false
}

// err says whether smg itself failed requests or did not start.
func (r *report) err() error {
	for _, p := range r.Peers {
		if p.Name == smgName && p.Failure != "" {
			return fmt.Errorf("smg did not start: %s", p.Failure)
		}
	}
	for _, res := range r.Results {
		if res.Peer == smgName && res.Failed > 0 {
			return fmt.Errorf("smg failed %d of its %ss with %s: %s", res.Failed, r.unit, res.Load, res.Failure)
		}
	}
	return nil
}

// printed is a report that has a form for people; its JSON is the other one.
type printed interface{ print(w io.Writer) error }

// publish prints the tables of a report and, if asked for, writes the JSON: to a file, or for "-" to stdout, which has nothing else then.
func publish(r printed, file string) error {
	tables := os.Stdout
	if file == "-" {
		tables = os.Stderr
	}
	if err := r.print(tables); err != nil || file == "" {
		return err
	}
	if file == "-" {
		return encode(os.Stdout, r)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(encode(f, r), f.Close())
}

// encode writes the JSON of a report.
func encode(w io.Writer, r printed) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
