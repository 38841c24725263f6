package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Family describes one of smg's metric families, as docs/metrics.md lists it.
type Family struct {
	Name   string
	Type   string // counter, gauge or histogram
	Help   string
	Labels []string // in the order of the fact sheet; nil for none

	Buckets []float64 // upper bounds of a histogram, ascending, without +Inf; nil for counters and gauges
}

// families makes metric families and registers each as it is made, so that none can be documented and not served or the other
// way round. A name that is made twice panics: it is a mistake in this package.
type families struct {
	registry  *prometheus.Registry
	durations []float64
	list      []Family
	perWorker []interface {
		DeletePartialMatch(prometheus.Labels) int
	}
}

func (f *families) note(typ, name, help string, labels []string) {
	f.list = append(f.list, Family{Name: name, Type: typ, Help: help, Labels: labels})
}

func (f *families) counterVec(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	f.note("counter", name, help, labels)
	if slices.Contains(labels, "worker") {
		f.perWorker = append(f.perWorker, v)
	}
	return v
}

func (f *families) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	f.registry.MustRegister(c)
	f.note("counter", name, help, nil)
	return c
}

func (f *families) gaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	f.registry.MustRegister(v)
	f.note("gauge", name, help, labels)
	return v
}

// gaugeFunc is a gauge that is read at the scrape.
func (f *families) gaugeFunc(name, help string, read func() float64) {
	f.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	f.note("gauge", name, help, nil)
}

// durationVec is a histogram of seconds with the bounds that a setting can replace.
func (f *families) durationVec(name, help string, labels ...string) *prometheus.HistogramVec {
	return f.histogramVec(name, help, f.durations, labels...)
}

func (f *families) histogramVec(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	f.registry.MustRegister(v)
	f.note("histogram", name, help, labels)
	f.list[len(f.list)-1].Buckets = buckets
	if slices.Contains(labels, "worker") {
		f.perWorker = append(f.perWorker, v)
	}
	return v
}

// desc describes a family that a collector of this package writes at the scrape.
func (f *families) desc(typ, name, help string, labels ...string) *prometheus.Desc {
	f.note(typ, name, help, labels)
	return prometheus.NewDesc(name, help, labels, nil)
}

// forget deletes every series of a worker, in all families with that label.
func (f *families) forget(worker string) {
	for _, v := range f.perWorker {
		v.DeletePartialMatch(prometheus.Labels{"worker": worker})
	}
}

func (f *families) sorted() []Family {
	list := slices.Clone(f.list)
	slices.SortFunc(list, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return list
}
