package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LoadMetrics counts the polls by which engines are asked for their load.
type LoadMetrics struct {
	polls    map[[2]string]prometheus.Counter // closed: by connection mode and result
	duration prometheus.Observer
	ignored  *prometheus.CounterVec
}

// pollResults are the values of the label "result" of smg_load_polls_total.
var pollResults = [...]string{"ok", "empty", "error", "timeout", "unsupported"}

func newLoadMetrics(f *families) *LoadMetrics {
	polls := f.counterVec("smg_load_polls_total", "Polls of an engine for its load, by what they brought.", "connection_mode", "result")
	m := &LoadMetrics{
		polls:    map[[2]string]prometheus.Counter{},
		duration: f.durationVec("smg_load_poll_duration_seconds", "Time that a poll of an engine for its load took.").WithLabelValues(),
		ignored:  f.counterVec("smg_load_numbers_ignored_total", "Numbers of load reports that an engine cannot have, and that were ignored.", "field"),
	}
	for _, connection := range []string{"http", "grpc", "zmq"} {
		for _, result := range pollResults {
			m.polls[[2]string{connection, result}] = polls.WithLabelValues(connection, result)
		}
	}
	return m
}

// Poll counts one poll. result is ok, empty, error, timeout or unsupported.
func (m *LoadMetrics) Poll(connection, result string, took time.Duration) {
	if c := m.polls[[2]string{connection, result}]; c != nil {
		c.Inc()
	}
	m.duration.Observe(took.Seconds())
}

// Ignored counts numbers of one report that cannot be, by what /v1/loads calls them.
func (m *LoadMetrics) Ignored(fields []string) {
	for _, f := range fields {
		m.ignored.WithLabelValues(f).Inc()
	}
}

// EngineSample is a worker's load report at a scrape.
type EngineSample struct {
	Age   time.Duration // since it was received
	Ranks []RankSample
}

// RankSample is the load of one data-parallel rank, as the engine says. What is nil it did not say: it has no series.
type RankSample struct {
	Rank                                         int
	Running, Waiting, Usage, Throughput, HitRate *float64

	Role                                      string   // of a rank that plays one part of prefill and decode: prefill, decode or ""
	Latency, Speed, PrefillQueue, DecodeQueue *float64 // milliseconds, GB/s, requests
}

// engineStates writes the gauges of engines' loads at the scrape: what has no report has no series.
type engineStates struct {
	age                                          *prometheus.Desc
	running, waiting, usage, throughput, hitRate *prometheus.Desc
	latency, speed, prefillQueue, decodeQueue    *prometheus.Desc
}

func newEngineStates(f *families) engineStates {
	rank := func(name, help string) *prometheus.Desc {
		return f.desc("gauge", name, help, "worker", "model", "dp_rank")
	}
	part := func(name, help string) *prometheus.Desc {
		return f.desc("gauge", name, help, "worker", "role", "dp_rank")
	}
	return engineStates{
		age:          f.desc("gauge", "smg_load_report_age_seconds", "Time since a worker's load report was received.", "worker"),
		running:      rank("smg_engine_running_requests", "Requests that the engine works on, as it reports."),
		waiting:      rank("smg_engine_waiting_requests", "Requests in the engine's queue, as it reports."),
		usage:        rank("smg_engine_token_usage", "Share of the engine's KV cache that is in use, 0 to 1, as it reports."),
		throughput:   rank("smg_engine_gen_throughput", "Tokens that the engine generates in a second, as it reports."),
		hitRate:      rank("smg_engine_cache_hit_rate", "Share of prompt tokens that the engine found in its cache, 0 to 1, as it reports."),
		latency:      part("smg_engine_pd_kv_transfer_latency_ms", "Milliseconds that a transfer of KV cache takes, as the engine reports."),
		speed:        part("smg_engine_pd_kv_transfer_speed_gb_s", "Speed of transfers of KV cache in GB/s, as the engine reports."),
		prefillQueue: part("smg_engine_pd_prefill_queue_reqs", "Requests in the engine's prefill queues, as it reports."),
		decodeQueue:  part("smg_engine_pd_decode_queue_reqs", "Requests in the engine's decode queues, as it reports."),
	}
}

func (s *engineStates) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		s.age, s.running, s.waiting, s.usage, s.throughput, s.hitRate, s.latency, s.speed, s.prefillQueue, s.decodeQueue,
	}
}

func (s *engineStates) collect(ch chan<- prometheus.Metric, url, model string, e *EngineSample) {
	if e == nil {
		return
	}
	ch <- prometheus.MustNewConstMetric(s.age, prometheus.GaugeValue, e.Age.Seconds(), url)
	seen := make(map[int]bool, len(e.Ranks))
	for i := range e.Ranks {
		r := &e.Ranks[i]
		if seen[r.Rank] { // an engine that gives two of its ranks one number must not spoil the scrape
			continue
		}
		seen[r.Rank] = true
		number := strconv.Itoa(r.Rank)
		s.collectRank(ch, r, [3]string{url, model, number}, [3]string{url, roleLabel(r.Role), number})
	}
}

func (s *engineStates) collectRank(ch chan<- prometheus.Metric, r *RankSample, rank, part [3]string) {
	gauge := func(d *prometheus.Desc, v *float64, labels *[3]string) {
		if v != nil {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, *v, labels[:]...)
		}
	}
	gauge(s.running, r.Running, &rank)
	gauge(s.waiting, r.Waiting, &rank)
	gauge(s.usage, r.Usage, &rank)
	gauge(s.throughput, r.Throughput, &rank)
	gauge(s.hitRate, r.HitRate, &rank)
	gauge(s.latency, r.Latency, &part)
	gauge(s.speed, r.Speed, &part)
	gauge(s.prefillQueue, r.PrefillQueue, &part)
	gauge(s.decodeQueue, r.DecodeQueue, &part)
}

// roleLabel bounds what an engine calls its part.
func roleLabel(role string) string {
	if role == WorkerPrefill || role == WorkerDecode {
		return role
	}
	return "null"
}
