package telemetry

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	ageInterval    = 20 * time.Second
	inflightShards = 16 // a power of two
)

// ageBounds are the upper bounds of the age buckets, in whole seconds; the last bucket has none.
var ageBounds = [...]int64{30, 60, 180, 300, 600, 1200, 3600, 7200, 14400, 28800, 86400}

// Inflight knows the requests that are in flight, from arrival until the response body has ended or the client has left.
type Inflight struct {
	shards [inflightShards]inflightShard
	ages   [len(ageBounds) + 1]prometheus.Gauge
}

// inflightShard is a ring of nodes around head.
type inflightShard struct {
	mu   sync.Mutex
	head InflightNode
	n    int
	_    [64]byte // neighbours are locked by other cores
}

// InflightNode is one request's place in an [Inflight]. It belongs to the caller, who may use it again after Leave. It must not
// be copied while it is entered.
type InflightNode struct {
	prev, next *InflightNode
	since      time.Time
	in         atomic.Pointer[inflightShard] // nil: not entered
}

func newInflight(f *families) *Inflight {
	t := new(Inflight)
	for i := range t.shards {
		s := &t.shards[i]
		s.head.prev, s.head.next = &s.head, &s.head
	}
	f.gaugeFunc("smg_http_connections_active", "Requests in flight, streamed response bodies included.",
		func() float64 { return float64(t.Len()) })
	v := f.gaugeVec("smg_http_inflight_request_age_count",
		"Requests in flight whose age in seconds is above gt and at most le; sampled every 20 s, not cumulative.", "gt", "le")
	gt := "0"
	for i, bound := range ageBounds {
		le := strconv.FormatInt(bound, 10)
		t.ages[i] = v.WithLabelValues(gt, le)
		gt = le
	}
	t.ages[len(ageBounds)] = v.WithLabelValues(gt, "+Inf")
	return t
}

// Enter counts a request that arrived at now. A node that is still entered is taken out first.
func (t *Inflight) Enter(n *InflightNode, now time.Time) {
	t.Leave(n)
	s := &t.shards[rand.Uint32()%inflightShards]
	s.mu.Lock()
	n.since = now
	n.prev, n.next = s.head.prev, &s.head
	n.prev.next, s.head.prev = n, n
	s.n++
	s.mu.Unlock()
	n.in.Store(s)
}

// Leave takes a request out. It reports whether it was in: only the first of several calls does anything.
func (t *Inflight) Leave(n *InflightNode) bool {
	if n.in.Load() == nil { // spares the write that Swap is
		return false
	}
	s := n.in.Swap(nil)
	if s == nil {
		return false
	}
	s.mu.Lock()
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
	s.n--
	s.mu.Unlock()
	return true
}

// Len is the number of requests in flight.
func (t *Inflight) Len() int {
	total := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		total += s.n
		s.mu.Unlock()
	}
	return total
}

// Sample sets the gauges of smg_http_inflight_request_age_count, all of them, to what is in flight at now.
func (t *Inflight) Sample(now time.Time) {
	var counts [len(ageBounds) + 1]int
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for n := s.head.next; n != &s.head; n = n.next {
			counts[ageBucket(now.Sub(n.since))]++
		}
		s.mu.Unlock()
	}
	for i, n := range counts {
		t.ages[i].Set(float64(n))
	}
}

// ageBucket cuts the age to whole seconds: 30.9 s is 30 and belongs to the first bucket.
func ageBucket(age time.Duration) int {
	seconds := int64(age / time.Second)
	for i, bound := range ageBounds {
		if seconds <= bound {
			return i
		}
	}
	return len(ageBounds)
}

func (t *Inflight) run(ctx context.Context) {
	tick := time.NewTicker(ageInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			t.Sample(now)
		}
	}
}
