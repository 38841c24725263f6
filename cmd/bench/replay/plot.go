package replay

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// The sizes of a plot, in pixels.
const (
	plotWidth, plotHeight = 760, 420
	plotLeft, plotRight   = 60, 180 // margins; the names of the lines stand in the right one
	plotTop, plotBottom   = 40, 50
)

// colors are those of the lines, apart in print and for the color-blind as far as twelve can be.
var colors = []string{
	"#444444", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c510a", "#762a83", "#1b7837", "#b2182b", "#999999",
}

// Plot writes an SVG of the 90th percentile of TTFT over load, on a logarithmic scale: a line for each policy of the rows, which are of
// one workload, fleet and seed.
func Plot(out io.Writer, rows []Row) error {
	p := newPlot(rows)
	p.frame(rows[0])
	for i, name := range p.policies {
		p.line(name, i, rows)
	}
	p.printf("</svg>\n")
	_, err := out.Write(p.svg)
	return err
}

// WritePlots writes a plot for each workload, size of fleet and seed into a folder, which is made if it is missing.
func WritePlots(dir string, rows []Row) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, group := range Grouped(rows) {
		var svg bytes.Buffer
		if err := Plot(&svg, group); err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%d-%d.svg", group[0].Workload, group[0].Engines, group[0].Seed)
		if err := os.WriteFile(filepath.Join(dir, name), svg.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

type plot struct {
	svg       []byte
	policies  []string
	low, high float64 // loads
	least     float64 // power of ten, of seconds
	most      float64
}

func newPlot(rows []Row) *plot {
	p := &plot{low: math.Inf(1), high: math.Inf(-1), least: math.Inf(1), most: math.Inf(-1)}
	for _, r := range rows {
		if !slices.Contains(p.policies, r.Policy) {
			p.policies = append(p.policies, r.Policy)
		}
		y := math.Log10(max(r.TTFTP90, 1e-3))
		p.low, p.high = min(p.low, r.Load), max(p.high, r.Load)
		p.least, p.most = min(p.least, y), max(p.most, y)
	}
	p.least, p.most = math.Floor(p.least), math.Ceil(p.most)
	if p.most == p.least {
		p.most++
	}
	if p.high == p.low {
		p.high += 0.1
	}
	return p
}

func (p *plot) printf(format string, args ...any) { p.svg = fmt.Appendf(p.svg, format, args...) }

func (p *plot) x(load float64) float64 {
	return plotLeft + (load-p.low)/(p.high-p.low)*(plotWidth-plotLeft-plotRight)
}

func (p *plot) y(s float64) float64 {
	return plotTop + (p.most-math.Log10(max(s, 1e-3)))/(p.most-p.least)*(plotHeight-plotTop-plotBottom)
}

// frame draws what stands behind the lines.
func (p *plot) frame(r Row) {
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight)
	p.printf(`<rect width="100%%" height="100%%" fill="white"/>` + "\n")
	p.printf(`<text x="%d" y="22" font-size="14">%s, %d engines: TTFT p90 over load</text>`+"\n", plotLeft, html.EscapeString(r.Workload), r.Engines)
	for e := p.least; e <= p.most; e++ {
		y := p.y(math.Pow(10, e))
		p.printf(`<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%g s</text>`+"\n",
			plotLeft, y, plotWidth-plotRight, plotLeft-6, y+4, math.Pow(10, e))
	}
	for _, load := range ticks(p.low, p.high) {
		x := p.x(load)
		p.printf(`<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%.3g</text>`+"\n",
			x, plotTop, plotHeight-plotBottom, x, plotHeight-plotBottom+16, load)
	}
	unit := "the capacity of " + knee
	if r.Recorded > 0 {
		unit = fmt.Sprintf("the recorded rate, %.3g/s", r.Recorded)
	}
	p.printf(`<text x="%d" y="%d" text-anchor="middle">load, 1 is %s</text>`+"\n", (plotLeft+plotWidth-plotRight)/2, plotHeight-12, unit)
}

// ticks are round numbers from low to high.
func ticks(low, high float64) []float64 {
	var all []float64
	for k := math.Ceil(low*10 - 1e-9); k <= high*10+1e-9; k++ {
		all = append(all, k/10)
	}
	return all
}

// line draws a policy, and its name in the legend.
func (p *plot) line(name string, i int, rows []Row) {
	color := colors[i%len(colors)]
	p.printf(`<polyline fill="none" stroke="%s" stroke-width="1.8" points="`, color)
	for _, r := range rows {
		if r.Policy == name {
			p.printf("%.1f,%.1f ", p.x(r.Load), p.y(r.TTFTP90))
		}
	}
	y := plotTop + 8 + 18*i
	p.printf(`"/><path d="M%d %dh20" stroke="%s" stroke-width="3"/><text x="%d" y="%d">%s</text>`+"\n",
		plotWidth-plotRight+12, y, color, plotWidth-plotRight+38, y+4, html.EscapeString(name))
}
