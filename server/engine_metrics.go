package server

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

const (
	scrapeTimeout = 5 * time.Second // of one engine
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

// page is one engine's families by name.
type page map[string]*dto.MetricFamily

// scrapeAll are the pages of the engines that have answered.
func (g *gateway) scrapeAll(ws []*workers.Worker) (pages []page) {
	for _, o := range askAll(ws, g.scrape) {
		if o.err != nil {
			g.log.Debug("metrics of an engine could not be read", "worker", o.engine.URL(), "error", o.err)
			continue
		}
		pages = append(pages, o.answer)
	}
	return pages
}

func (g *gateway) scrape(w *workers.Worker) (families page, err error) {
	err = g.ask(w, errand{method: http.MethodGet, path: "/metrics", timeout: scrapeTimeout}, func(body io.Reader) (err error) {
		parser := expfmt.NewTextParser(prommodel.UTF8Validation)
		families, err = parser.TextToMetricFamilies(io.LimitReader(body, scrapeBytes))
		return err
	})
	name, value := "worker_addr", w.Endpoint().Base
	for _, f := range families {
		for _, m := range f.Metric {
			m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
		}
	}
	return families, err
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
