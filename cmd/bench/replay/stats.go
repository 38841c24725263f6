package replay

import (
	"math"
	"slices"
	"time"
)

// stats is what a run shows.
type stats struct {
	ttft, e2e      []float64 // seconds
	prompt, cached int64     // tokens
	work           []float64 // of each engine, seconds
	late           int       // measured first tokens that are known to be beyond the limit
	unmeasured     int       // requests that came outside the measured time
}

func newStats(engines int) stats { return stats{work: make([]float64, engines)} }

func (s *stats) came(c *call) {
	if !c.measured {
		s.unmeasured++
	}
}

func (s *stats) first(c *call) {
	if !c.measured {
		return
	}
	s.ttft = append(s.ttft, c.first.Seconds())
	s.prompt += int64(c.job.Tokens)
	s.cached += int64(c.job.Cached)
}

// done counts what a request was for its engine, at the speed of an engine that is not slow: its prefill, and what its tokens added to
// the steps.
func (s *stats) done(c *call, took time.Duration) {
	if !c.measured {
		return
	}
	s.e2e = append(s.e2e, took.Seconds())
	standard := c.run.w.Engine.Complete()
	s.work[c.engine] += float64(c.job.Tokens-c.job.Cached)/float64(standard.PrefillTPS) +
		float64(c.job.Output)*standard.BatchSlowdown.Seconds()
}

// result is the figures of a run.
type result struct {
	cachedShare                    float64
	mean, p50, p90, p99, e2e, skew float64 // seconds, but for skew: the largest work by the mean
}

func (s *stats) result() result {
	slices.Sort(s.ttft)
	slices.Sort(s.e2e)
	sum, most := 0.0, 0.0
	for _, w := range s.work {
		sum += w
		most = max(most, w)
	}
	r := result{
		mean: mean(s.ttft), p50: quantile(s.ttft, 0.5), p90: quantile(s.ttft, 0.9), p99: quantile(s.ttft, 0.99),
		e2e: quantile(s.e2e, 0.99),
	}
	if sum > 0 {
		r.skew = most * float64(len(s.work)) / sum
	}
	if s.prompt > 0 {
		r.cachedShare = float64(s.cached) / float64(s.prompt)
	}
	return r
}

func mean(sorted []float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(len(sorted))
}

// quantile is the smallest value that a share of q of all do not exceed; 0 of nothing.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}
