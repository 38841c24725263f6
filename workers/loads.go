package workers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	loadsPath    = "/v1/loads?include=core,disagg,queues,memory"
	metricsPath  = "/metrics"
	pollTimeout  = 5 * time.Second // of each of the two questions of a poll
	maxPage      = 16 << 20        // bytes of an answer
	maxStrangers = 3               // answers in a row that are good and tell no loads, until the engine is known to have no such route
)

// PollResult is how a poll of an engine's load ended.
type PollResult uint8

// The results, from the best to the worst; a poll that asks twice ends with the better answer, and else with the worse failure.
const (
	PollOK          PollResult = iota // a report
	PollUnsupported                   // the engine has no way to tell
	PollEmpty                         // it tells nothing now
	PollError                         // it answered with an error or with garbage, or was not reached
	PollTimeout                       // it did not answer in time
)

// PollResults is how many results there are; each is less.
const PollResults = 5

// String is the result as metrics name it.
func (r PollResult) String() string {
	return [PollResults]string{"ok", "unsupported", "empty", "error", "timeout"}[r]
}

// polled is what came of asking an engine.
type polled struct {
	result    PollResult
	timestamp string
	ranks     []RankLoad
	summed    bool // the one rank stands for all of the engine's
	err       error
}

// loadSource asks one engine for its load, and remembers what it learns about how to ask. One goroutine uses it at a time.
type loadSource struct {
	engine    engine
	runtime   Runtime
	absent    bool // it has no /v1/loads
	strangers int  // answers in a row that were good and told no loads
	counters  *counters
	failing   bool // the last poll failed
	strange   bool // the last report had numbers that were ignored
}

// poll asks for the loads, and if it gets none, for the page of metrics. A failure is not remembered: the next poll begins anew.
func (s *loadSource) poll(ctx context.Context) polled {
	best := polled{result: PollUnsupported, err: errors.New("the engine tells its load nowhere")}
	for _, ask := range []func(context.Context) polled{s.askLoads, s.askMetrics} {
		limited, cancel := context.WithTimeout(ctx, pollTimeout)
		p := ask(limited)
		if p.result == PollError && limited.Err() != nil {
			p.result = PollTimeout
		}
		cancel()
		if p.result == PollOK {
			return p
		}
		if p.result > best.result {
			best = p
		}
	}
	return best
}

func failed(err error) polled { return polled{result: PollError, err: err} }

func (s *loadSource) askLoads(ctx context.Context) polled {
	if s.absent {
		return polled{result: PollUnsupported}
	}
	got, err := s.engine.read(ctx, loadsPath, maxPage)
	switch {
	case err != nil:
		return failed(err)
	case noSuchRoute(got.status):
		s.absent = true
		return polled{result: PollUnsupported}
	case !got.ok():
		return failed(fmt.Errorf("GET /v1/loads: status %d", got.status))
	}
	timestamp, ranks, err := parseLoads(got.body)
	if err != nil {
		s.strangers++
		s.absent = s.strangers >= maxStrangers // one bad answer does not change how the engine is asked
		return failed(fmt.Errorf("GET /v1/loads: %w", err))
	}
	s.strangers = 0
	if len(ranks) == 0 {
		return polled{result: PollEmpty, err: errors.New("GET /v1/loads: no loads")}
	}
	return polled{timestamp: timestamp, ranks: ranks}
}

// noSuchRoute tells whether a status says that the engine does not know what it was asked.
func noSuchRoute(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
}

func (s *loadSource) askMetrics(ctx context.Context) polled {
	if s.runtime != VLLM && s.runtime != SGLang {
		return polled{result: PollUnsupported}
	}
	got, err := s.engine.read(ctx, metricsPath, maxPage)
	switch {
	case err != nil:
		return failed(err)
	case noSuchRoute(got.status):
		return polled{result: PollUnsupported}
	case !got.ok():
		return failed(fmt.Errorf("GET /metrics: status %d", got.status))
	}
	now := time.Now()
	rank, ok := s.parse(got.body, now)
	if !ok {
		return polled{result: PollEmpty, err: errors.New("GET /metrics: no gauge of the KV cache")}
	}
	return polled{timestamp: now.UTC().Format(time.RFC3339Nano), ranks: []RankLoad{rank}, summed: true}
}

func (s *loadSource) parse(page []byte, at time.Time) (l RankLoad, ok bool) {
	if s.runtime == SGLang {
		return parseSGLang(page)
	}
	l, now, ok := parseVLLM(page, at, s.counters)
	if ok {
		s.counters = &now
	}
	return l, ok
}

// ignored are the numbers of the answer that cannot be used.
func (p *polled) ignored() (f Fields) {
	for i := range p.ranks {
		f |= p.ranks[i].Ignored
	}
	return f
}

// report is what an answer says of one worker: all of it, or the entry of its data-parallel rank. nil if that is nothing.
func (p *polled) report(w *Worker, asked, received time.Time) *Report {
	ranks := p.ranks
	if own, ranked := w.endpoint.rank(); ranked {
		ranks = nil
		for _, l := range p.ranks {
			if l.Rank == own && !p.summed {
				ranks = []RankLoad{l}
				break
			}
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	return NewReport(asked, received, p.timestamp, ranks)
}
