package workers

import (
	"encoding/json"
	"errors"
	"math"
)

// What an engine may claim. A number beyond is no measurement but a mistake, and is ignored like one of another type; sums over
// ranks of what is left cannot overflow.
const (
	maxRanks      = 4096
	maxCount      = 1 << 40 // requests or tokens
	maxThroughput = 1e9     // tokens a second
	maxRatio      = 1.1     // above 1 by rounding; a percentage is far above
	maxSize       = 1e9     // gigabytes, or milliseconds
)

// errNoLoads says that a body is not what /v1/loads answers.
var errNoLoads = errors.New("the answer tells no loads")

// parseLoads reads the answer of /v1/loads. Fields that are not known, or of an unexpected type, are ignored, and so is an entry
// that tells no number at all. ranks is empty if the engine has nothing to tell now; the error is errNoLoads if the body is
// something else.
func parseLoads(body []byte) (timestamp string, ranks []RankLoad, err error) {
	var fields map[string]json.RawMessage
	var loads []json.RawMessage
	if json.Unmarshal(body, &fields) != nil || json.Unmarshal(fields["loads"], &loads) != nil || loads == nil {
		return "", nil, errNoLoads
	}
	_ = json.Unmarshal(fields["timestamp"], &timestamp)
	for _, raw := range loads[:min(len(loads), maxRanks)] {
		if l := parseRank(raw); l.Sent != 0 {
			ranks = append(ranks, l)
		}
	}
	return timestamp, ranks, nil
}

// section is an object whose fields are read one by one, and leniently.
type section map[string]json.RawMessage

// number reads a field. ok is false if it is absent, no number, or not finite.
func (s section) number(name string) (f float64, ok bool) {
	if !s.has(name) || json.Unmarshal(s[name], &f) != nil { // null leaves f as it is
		return 0, false
	}
	return f, true
}

// has tells whether a field is there; null is not.
func (s section) has(name string) bool { return len(s[name]) > 0 && s[name][0] != 'n' }

// count reads a number of things; a negative one is 0.
func (s section) count(name string) (n int64, ok bool) {
	f, ok := s.number(name)
	if !ok || f > maxCount {
		return 0, false
	}
	return int64(max(0, f)), true
}

// upTo reads a number from 0 to most; a negative one is 0.
func (s section) upTo(most float64, name string) (f float64, ok bool) {
	f, ok = s.number(name)
	if !ok || f > most {
		return 0, false
	}
	return max(0, f), true
}

func (s section) inside(name string) (inner section) {
	_ = json.Unmarshal(s[name], &inner)
	return inner
}

func parseRank(raw []byte) (l RankLoad) {
	var s section
	if json.Unmarshal(raw, &s) != nil {
		return l
	}
	if n, ok := s.count("dp_rank"); ok {
		l.Rank = int(min(n, math.MaxInt32))
	}
	l.counts(s)
	l.ratios(s)
	l.Disaggregation = parseDisaggregation(s)
	l.Memory = parseMemory(s.inside("memory"))
	l.Queues = parseQueues(s.inside("queues"))
	return l
}

func (l *RankLoad) counts(s section) {
	for _, field := range []struct {
		name string
		to   *int64
		sent Fields
	}{
		{"num_running_reqs", &l.Running, SentRunning},
		{"num_waiting_reqs", &l.Waiting, SentWaiting},
		{"num_total_reqs", &l.Total, SentTotal},
		{"num_waiting_uncached_tokens", &l.WaitingTokens, SentWaitingTokens},
		{"num_used_tokens", &l.UsedTokens, SentUsedTokens},
		{"max_total_num_tokens", &l.Capacity, SentCapacity},
		{"max_running_requests", &l.RunningLimit, SentRunningLimit},
	} {
		if n, ok := s.count(field.name); ok {
			*field.to = n
			l.Sent |= field.sent
		} else if s.has(field.name) {
			l.Ignored |= field.sent
		}
	}
	if l.Sent&SentTotal == 0 {
		l.Total = l.Running + l.Waiting
	}
}

func (l *RankLoad) ratios(s section) {
	for _, field := range []struct {
		name string
		to   *float64
		most float64
		sent Fields
	}{
		{"token_usage", &l.Usage, maxRatio, SentUsage},
		{"gen_throughput", &l.Throughput, maxThroughput, SentThroughput},
		{"cache_hit_rate", &l.HitRate, maxRatio, SentHitRate},
		{"utilization", &l.Utilization, maxRatio, SentUtilization},
	} {
		if f, ok := s.upTo(field.most, field.name); ok {
			if field.most == maxRatio {
				f = min(1, f)
			}
			*field.to = f
			l.Sent |= field.sent
		} else if s.has(field.name) {
			l.Ignored |= field.sent
		}
	}
}

// parseDisaggregation reads the flat fields of older builds, and the section of current ones, which wins.
func parseDisaggregation(flat section) *Disaggregation {
	var d Disaggregation
	nested := flat.inside("disaggregation")
	for _, s := range []section{flat, nested} {
		if f, ok := s.upTo(maxSize, "kv_transfer_latency_ms"); ok {
			d.Latency = &f
		}
		if f, ok := s.upTo(maxSize, "kv_transfer_speed_gb_s"); ok {
			d.Speed = &f
		}
	}
	_ = json.Unmarshal(flat["disagg_mode"], &d.Mode)
	_ = json.Unmarshal(nested["mode"], &d.Mode)
	d.PrefillQueue = flat.sum("prefill_queue_reqs")
	d.DecodeQueue = flat.sum("decode_queue_reqs")
	if n := nested.sum("prefill_prealloc_queue_reqs", "prefill_inflight_queue_reqs"); n != nil {
		d.PrefillQueue = n
	}
	if n := nested.sum("decode_prealloc_queue_reqs", "decode_transfer_queue_reqs", "decode_retracted_queue_reqs"); n != nil {
		d.DecodeQueue = n
	}
	if d == (Disaggregation{}) {
		return nil
	}
	return &d
}

// sum adds those of the fields up that are there; nil if none is.
func (s section) sum(names ...string) *int64 {
	var sum int64
	var some bool
	for _, name := range names {
		if n, ok := s.count(name); ok {
			sum, some = sum+n, true
		}
	}
	if !some {
		return nil
	}
	return &sum
}

func parseMemory(s section) *MemoryLoad {
	if s == nil {
		return nil
	}
	var m MemoryLoad
	m.Weights, _ = s.upTo(maxSize, "weight_gb")
	m.KVCache, _ = s.upTo(maxSize, "kv_cache_gb")
	m.Graph, _ = s.upTo(maxSize, "graph_gb")
	m.TokenCapacity, _ = s.count("token_capacity")
	return &m
}

func parseQueues(s section) *QueueLoad {
	if s == nil {
		return nil
	}
	var q QueueLoad
	q.Waiting, _ = s.count("waiting")
	q.Grammar, _ = s.count("grammar")
	q.Paused, _ = s.count("paused")
	q.Retracted, _ = s.count("retracted")
	return &q
}
