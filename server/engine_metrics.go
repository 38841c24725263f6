package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

const (
	scrapeTimeout = 5 * time.Second // of one engine
	scrapeLimit   = 32              // engines that are asked at once
	scrapeBytes   = 16 << 20        // of one engine's answer
)

// engineMetrics answers with the metrics of all engines in one page, each sample with the label worker_addr. Ranks of one engine
// are asked once. An engine that does not answer is left out.
func (g *gateway) engineMetrics() pipeline.Stage {
	return pipeline.StageFunc("engine_metrics", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		pages := g.scrapeAll(engines(g.registry.All()))
		if len(pages) == 0 {
			return noMetrics(g.registry.Len())
		}
		return answer(x, http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", merge(pages))
	})
}

func noMetrics(registered int) *pipeline.Error {
	if registered == 0 {
		return &pipeline.Error{Status: http.StatusInternalServerError, Code: "no_workers", Message: "No available workers", Terminal: true}
	}
	return &pipeline.Error{Status: http.StatusInternalServerError, Code: "no_worker_response", Message: "All backend requests failed", Terminal: true}
}

// engines are the workers that stand for their engine: the first of those with one base URL.
func engines(all []*workers.Worker) []*workers.Worker {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(w *workers.Worker) bool {
		base := w.Endpoint().Base
		again := seen[base] || w.Mode() != workers.HTTP
		seen[base] = true
		return again
	})
}

// page is one engine's families by name.
type page map[string]*dto.MetricFamily

func (g *gateway) scrapeAll(ws []*workers.Worker) []page {
	pages := make([]page, len(ws))
	places := make(chan struct{}, scrapeLimit)
	var all sync.WaitGroup
	for i, w := range ws {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			p, err := g.scrape(w)
			if err != nil {
				g.log.Debug("metrics of an engine could not be read", "worker", w.URL(), "error", err)
				return
			}
			pages[i] = p
		})
	}
	all.Wait()
	return slices.DeleteFunc(pages, func(p page) bool { return p == nil })
}

func (g *gateway) scrape(w *workers.Worker) (page, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Endpoint().Base+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	if bearer := w.Bearer(); bearer != "" {
		r.Header.Set("Authorization", bearer)
	}
	resp, err := g.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	parser := expfmt.NewTextParser(prommodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(resp.Body, scrapeBytes))
	if err != nil {
		return nil, err
	}
	name, value := "worker_addr", w.Endpoint().Base
	for _, f := range families {
		for _, m := range f.Metric {
			m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
		}
	}
	return families, nil
}

// merge writes the pages as one: every family once, its help and type from the first engine that has it. A family that an
// engine gives another type is left out for that engine.
func merge(pages []page) []byte {
	merged := page{}
	for _, p := range pages {
		for name, f := range p {
			switch was := merged[name]; {
			case was == nil:
				merged[name] = f
			case was.GetType() == f.GetType():
				was.Metric = append(was.Metric, f.Metric...)
			}
		}
	}
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		_, _ = expfmt.MetricFamilyToText(&out, merged[name]) // a buffer does not fail
	}
	return out.Bytes()
}
