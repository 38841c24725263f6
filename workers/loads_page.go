package workers

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// sample is one line of a page of metrics in the Prometheus text format. Its parts are slices of the page.
type sample struct {
	name, labels []byte  // the labels as they stand between the braces
	value        float64 // finite; not a number if that is all that can be said of it
}

// samples yields the samples of a page. Lines that are none are skipped.
func samples(page []byte, yield func(sample) bool) {
	for line := range bytes.Lines(page) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		s, ok := parseSample(line)
		if ok && !yield(s) {
			return
		}
	}
}

// parseSample reads name{labels} value timestamp, the labels and the timestamp if they are there.
func parseSample(line []byte) (s sample, ok bool) {
	end := bytes.IndexAny(line, "{ \t")
	if end <= 0 {
		return s, false
	}
	s.name, line = line[:end], bytes.TrimLeft(line[end:], " \t")
	if len(line) > 0 && line[0] == '{' {
		end := closing(line)
		if end < 0 {
			return s, false
		}
		s.labels, line = line[1:end], line[end+1:]
	}
	fields := bytes.Fields(line)
	if len(fields) == 0 {
		return s, false
	}
	value, err := strconv.ParseFloat(string(fields[0]), 64)
	if s.value = value; err != nil || math.IsInf(value, 0) {
		s.value = math.NaN()
	}
	return s, true
}

// closing is the place of the brace that ends the labels: not one in a quoted value. -1 if there is none.
func closing(line []byte) int {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i
		}
	}
	return -1
}

// label is the value of a label, as it is written; "" if there is none. Values with escapes are none that smg reads.
func (s *sample) label(name string) string {
	rest := s.labels
	for len(rest) > 0 {
		key, value, found := bytes.Cut(rest, []byte(`="`))
		end := quoteEnd(value)
		if !found || end < 0 {
			return ""
		}
		if string(bytes.Trim(key, ", \t")) == name {
			return string(value[:end])
		}
		rest = value[end+1:]
	}
	return ""
}

// quoteEnd is the place of the quote that ends a value; -1 if there is none.
func quoteEnd(value []byte) int {
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// tally is what the samples of one name come to.
type tally struct {
	sum float64
	n   int
	bad bool // some value was none
}

func (t *tally) add(v float64) {
	if math.IsNaN(v) {
		t.bad = true
		return
	}
	t.sum += v
	t.n++
}

// mean is the mean of ratios, from 0 to 1; ok is false if there is none, or it is none of a ratio.
func (t *tally) mean() (f float64, ok bool) {
	f = t.sum / float64(t.n)
	return min(1, max(0, f)), t.n > 0 && f <= maxRatio
}

// count is the sum of counts.
func (t *tally) count() (n int64, ok bool) {
	if t.n == 0 || t.sum > maxCount {
		return 0, false
	}
	return int64(max(0, t.sum)), true
}

// counters are what a vLLM page counts since the engine's start. It has no gauges of rates: those are found between two pages.
type counters struct {
	at                       time.Time
	generated, hits, queries float64
	counted, cached          bool // whether the page had the first; the other two
}

// rates are the generated tokens a second and the share of prompt tokens that were cached, since an earlier page.
func (c *counters) rates(was *counters, l *RankLoad) {
	if was == nil {
		return
	}
	dt := c.at.Sub(was.at).Seconds()
	if rate := (c.generated - was.generated) / dt; dt > 0 && c.counted && was.counted && rate >= 0 && rate <= maxThroughput {
		l.Throughput = rate
		l.Sent |= SentThroughput
	}
	queries, hits := c.queries-was.queries, c.hits-was.hits
	if c.cached && was.cached && queries > 0 && hits >= 0 && hits <= queries {
		l.HitRate = hits / queries
		l.Sent |= SentHitRate
	}
}
