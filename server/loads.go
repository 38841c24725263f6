package server

import (
	"net/http"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// loadPage is what GET /loads says: what the engines said at their last polls, and what it comes to.
type loadPage struct {
	Timestamp string         `json:"timestamp"`
	Version   string         `json:"version"`
	Ranks     int            `json:"dp_rank_count"`
	Loads     []loadEntry    `json:"loads"`
	Aggregate *loadAggregate `json:"aggregate,omitempty"` // absent without an entry
}

// loadEntry is the load of one rank of a worker.
type loadEntry struct {
	Worker string `json:"worker"`
	Type   string `json:"worker_type"`
	workers.RankLoad
}

type loadAggregate struct {
	Running     int64   `json:"total_running_reqs"`
	Waiting     int64   `json:"total_waiting_reqs"`
	Total       int64   `json:"total_reqs"`
	Usage       float64 `json:"avg_token_usage"`
	Throughput  float64 `json:"avg_throughput"`
	Utilization float64 `json:"avg_utilization"`
}

// listLoads answers with the last load reports of the workers; with ?model= of those that serve it. Nobody is asked for it.
func (g *gateway) listLoads() pipeline.Stage {
	return pipeline.StageFunc("list_loads", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		page := loadPage{Timestamp: time.Now().UTC().Format(time.RFC3339), Version: "smg-" + Version, Loads: []loadEntry{}}
		asked := g.askedFor(x.Client.Query())
		for _, w := range g.registry.All() {
			if r := w.Report(); r != nil && asked(w) {
				for _, l := range r.Ranks {
					page.Loads = append(page.Loads, loadEntry{w.URL(), w.Type().String(), l})
				}
			}
		}
		page.Ranks, page.Aggregate = len(page.Loads), aggregate(page.Loads)
		return answerJSON(x, http.StatusOK, page)
	})
}

// aggregate sums counts up; the rest is a mean over the entries.
func aggregate(loads []loadEntry) *loadAggregate {
	if len(loads) == 0 {
		return nil
	}
	var a loadAggregate
	for i := range loads {
		l := &loads[i]
		a.Running += l.Running
		a.Waiting += l.Waiting
		a.Total += l.Total
		a.Usage += l.Usage
		a.Throughput += l.Throughput
		a.Utilization += l.Utilization
	}
	n := float64(len(loads))
	a.Usage, a.Throughput, a.Utilization = a.Usage/n, a.Throughput/n, a.Utilization/n
	return &a
}

// monitoring makes what polls the engines for their load.
func (g *gateway) monitoring() {
	settings := workers.LoadSettings{Interval: g.cfg.LoadMonitorInterval.Duration(), Wanted: g.loadsWanted}
	g.loads = workers.NewLoadMonitor(g.registry, settings, telemetry.WithTarget(g.log, "smg::load_monitor"))
	g.loads.UseTLS(g.workerTLS)
	g.loads.OnPoll(func(p workers.Poll) {
		g.metrics.Loads.Poll(p.Mode.String(), p.Result.String(), p.Took)
		g.metrics.Loads.Ignored(p.Ignored.Names())
	})
}

// loadsWanted tells whether engines are polled now, whatever their ceilings: by default, and else for the metrics or while a live
// policy reads loads.
func (g *gateway) loadsWanted() bool {
	return !g.cfg.DisableLoadMonitoring || g.cfg.EngineMetrics || g.demand.Loads()
}

// engineSample is a worker's load report as the metrics show it; nil if it has none.
func engineSample(w *workers.Worker) *telemetry.EngineSample {
	r := w.Report()
	if r == nil {
		return nil
	}
	s := &telemetry.EngineSample{Age: time.Since(r.Received), Ranks: make([]telemetry.RankSample, 0, len(r.Ranks))}
	for i := range r.Ranks {
		s.Ranks = append(s.Ranks, rankSample(&r.Ranks[i]))
	}
	return s
}

func rankSample(l *workers.RankLoad) telemetry.RankSample {
	count := func(n int64, sent workers.Fields) *float64 { return sentOrNil(l, float64(n), sent) }
	s := telemetry.RankSample{
		Rank: l.Rank, Running: count(l.Running, workers.SentRunning), Waiting: count(l.Waiting, workers.SentWaiting),
		Usage: sentOrNil(l, l.Usage, workers.SentUsage), Throughput: sentOrNil(l, l.Throughput, workers.SentThroughput),
		HitRate: sentOrNil(l, l.HitRate, workers.SentHitRate),
	}
	if d := l.Disaggregation; d != nil {
		s.Role, s.Latency, s.Speed = d.Mode, d.Latency, d.Speed
		s.PrefillQueue, s.DecodeQueue = asFloat(d.PrefillQueue), asFloat(d.DecodeQueue)
	}
	return s
}

// sentOrNil is a number that the engine sent, and nil for one that it did not.
func sentOrNil(l *workers.RankLoad, f float64, field workers.Fields) *float64 {
	if l.Sent&field == 0 {
		return nil
	}
	return &f
}

func asFloat(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}
