package workers

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Report is what an engine said of its load at one poll, one entry for each data-parallel rank; never without one. It never
// changes after it was made.
type Report struct {
	Timestamp string    // the engine's own words
	Asked     time.Time // when the poll that brought it began
	Received  time.Time
	Ranks     []RankLoad

	// What the ranks come to, made by [NewReport].
	Running       int64   // requests that the engine works on
	Waiting       int64   // requests that wait in its queue
	WaitingTokens int64   // their prompt tokens that are not cached; 0 if no rank says
	Throughput    float64 // generated tokens a second; 0 if not reported
	Usage         float64 // mean share of the KV cache in use, 0 to 1, over the ranks that say
	UsageKnown    bool    // false if no rank says; the engine's cache may be empty or full then
	Vague         bool    // a rank sent a number of its queue or its KV cache that is none: what is known of the two is only a part
	RunningLimit  int64   // most requests that it works on at once; 0 if not reported
	Capacity      int64   // tokens of the KV cache; 0 if not reported
}

// RankLoad is the load of one data-parallel rank, as /v1/loads tells it. What an engine does not send is 0.
type RankLoad struct {
	Rank          int     `json:"dp_rank"`
	Running       int64   `json:"num_running_reqs"`
	Waiting       int64   `json:"num_waiting_reqs"`
	Total         int64   `json:"num_total_reqs"`
	WaitingTokens int64   `json:"num_waiting_uncached_tokens"`
	UsedTokens    int64   `json:"num_used_tokens"`
	Capacity      int64   `json:"max_total_num_tokens"`
	Usage         float64 `json:"token_usage"`
	Throughput    float64 `json:"gen_throughput"`
	HitRate       float64 `json:"cache_hit_rate"`
	Utilization   float64 `json:"utilization"`
	RunningLimit  int64   `json:"max_running_requests"`

	*Disaggregation
	Memory *MemoryLoad `json:"memory,omitempty"`
	Queues *QueueLoad  `json:"queues,omitempty"`

	Sent    Fields `json:"-"` // which of the numbers above the engine sent; a 0 that it did not send is no measurement
	Ignored Fields `json:"-"` // which it sent as something that such a number cannot be
}

// Fields are numbers of a [RankLoad], one bit for each.
type Fields uint16

// The numbers that an engine may leave out.
const (
	SentRunning Fields = 1 << iota
	SentWaiting
	SentTotal
	SentWaitingTokens
	SentUsedTokens
	SentCapacity
	SentUsage
	SentThroughput
	SentHitRate
	SentUtilization
	SentRunningLimit
)

var fieldNames = [...]string{
	"num_running_reqs", "num_waiting_reqs", "num_total_reqs", "num_waiting_uncached_tokens", "num_used_tokens", "max_total_num_tokens",
	"token_usage", "gen_throughput", "cache_hit_rate", "utilization", "max_running_requests",
}

// Names are the fields as /v1/loads calls them.
func (f Fields) Names() (names []string) {
	for bit, name := range fieldNames {
		if f&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String is the names, with a comma between two.
func (f Fields) String() string { return strings.Join(f.Names(), ",") }

// Disaggregation is what an engine that plays one part of prefill and decode tells of that. What it does not send is nil.
type Disaggregation struct {
	Mode         string   `json:"disagg_mode,omitempty"`
	Latency      *float64 `json:"kv_transfer_latency_ms,omitempty"`
	Speed        *float64 `json:"kv_transfer_speed_gb_s,omitempty"`
	PrefillQueue *int64   `json:"prefill_queue_reqs,omitempty"`
	DecodeQueue  *int64   `json:"decode_queue_reqs,omitempty"`
}

// MemoryLoad is where an engine's memory has gone.
type MemoryLoad struct {
	Weights       float64 `json:"weight_gb"`
	KVCache       float64 `json:"kv_cache_gb"`
	Graph         float64 `json:"graph_gb"`
	TokenCapacity int64   `json:"token_capacity"`
}

// QueueLoad is how many requests are in each of an engine's queues.
type QueueLoad struct {
	Waiting   int64 `json:"waiting"`
	Grammar   int64 `json:"grammar"`
	Paused    int64 `json:"paused"`
	Retracted int64 `json:"retracted"`
}

// NewReport sums the ranks up: counts and throughputs are added, usage is the mean of those that tell it.
func NewReport(asked, received time.Time, timestamp string, ranks []RankLoad) *Report {
	r := &Report{Timestamp: timestamp, Asked: asked, Received: received, Ranks: ranks}
	for i := range ranks {
		l := &ranks[i]
		r.Running += l.Running
		r.Waiting += l.Waiting
		r.WaitingTokens += l.WaitingTokens
		r.Throughput += l.Throughput
		r.RunningLimit += l.RunningLimit
		r.Capacity += l.Capacity
		r.Vague = r.Vague || l.vague()
	}
	r.Usage, r.UsageKnown = meanUsage(ranks)
	return r
}

// meanUsage is the mean of the ranks that tell how full their KV cache is; known is false if none does.
func meanUsage(ranks []RankLoad) (mean float64, known bool) {
	var first, apart float64 // so that the mean of equals is what each of them is
	n := 0
	for i := range ranks {
		l := &ranks[i]
		if l.Sent&SentUsage == 0 && l.Usage == 0 { // who makes a report by hand need not say what was sent
			continue
		}
		if n++; n == 1 {
			first = l.Usage
		}
		apart += l.Usage - first
	}
	if n == 0 {
		return 0, false
	}
	return first + apart/float64(n), true
}

// vague tells whether the rank's queue or usage is not known because the engine sent nonsense.
func (l *RankLoad) vague() bool {
	const queue = SentWaiting | SentWaitingTokens
	switch {
	case l.Ignored&SentUsage != 0:
		return true
	case l.WaitingTokens > 0 || l.Ignored&queue == SentWaitingTokens && l.Sent&SentWaiting != 0: // one of the two is enough
		return false
	}
	return l.Ignored&queue != 0
}

// QueuedTokens are the prompt tokens that wait, uncached ones alone where a rank says how many; a rank that does not is taken to
// have mean tokens for each request that waits.
func (r *Report) QueuedTokens(mean int64) float64 {
	var sum float64
	for i := range r.Ranks {
		if l := &r.Ranks[i]; l.WaitingTokens > 0 {
			sum += float64(l.WaitingTokens)
		} else {
			sum += float64(max(0, l.Waiting)) * float64(mean)
		}
	}
	return sum
}

// CountsTokens tells whether the engine says how many prompt tokens wait, in each of its ranks. No report says nothing.
func (r *Report) CountsTokens() bool {
	return r != nil && len(r.Ranks) > 0 && !slices.ContainsFunc(r.Ranks, func(l RankLoad) bool { return l.Sent&SentWaitingTokens == 0 })
}

// MarshalJSON is the report in the form of /v1/loads.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Timestamp string     `json:"timestamp"`
		Ranks     int        `json:"dp_rank_count"`
		Loads     []RankLoad `json:"loads"`
	}{r.Timestamp, len(r.Ranks), r.Ranks})
}

// Over tells whether the report is over a ceiling: as many requests wait in all, or as much of the KV cache is in use on average.
func (o OverloadSettings) Over(r *Report) bool {
	return o.WaitingRequests > 0 && r.Waiting >= o.WaitingRequests || o.TokenUsage > 0 && r.Usage >= o.TokenUsage
}

// On tells whether there is a ceiling at all.
func (o OverloadSettings) On() bool { return o.WaitingRequests > 0 || o.TokenUsage > 0 }

// Report is the worker's last load report; nil if it has none, or its last poll failed.
func (w *Worker) Report() *Report { return w.report.Load() }

// SetReport gives the worker a load report, or takes it away. Policies notice by the pointer that it is a new one.
func (w *Worker) SetReport(r *Report) { w.report.Store(r) }

// Slot is a small number that no other worker of the registry has, so that books about workers can be slices. A worker that is
// removed leaves its slot to a later one: who keeps a book compares the worker too. It is 0 before the registration.
func (w *Worker) Slot() int { return int(w.slot.Load()) }
