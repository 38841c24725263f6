package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// standing is what smg holds at a moment.
type standing struct {
	counters   map[string]int // that are 0 while there are no requests
	goroutines int
	files      int
	rss        int64
}

// idleGauges are the families whose series are all 0 while there are no requests.
var idleGauges = []string{
	"smg_http_connections_active", "smg_worker_requests_active", "smg_admission_inflight", "smg_admission_queue_depth",
}

// rest is how long smg is left alone before it is looked at: a little longer than it keeps connections that nobody uses.
const rest = 1300 * time.Millisecond

// baseline is the most that smg holds at rest: its own background work comes and goes.
func (s *scene) baseline(ctx context.Context) (*standing, error) {
	pause(ctx, rest)
	most, err := s.standing(ctx)
	for range 4 {
		if err != nil || !pause(ctx, 50*time.Millisecond) {
			break
		}
		var now *standing
		if now, err = s.standing(ctx); err == nil {
			now.goroutines, now.files = max(now.goroutines, most.goroutines), max(now.files, most.files)
			most = now
		}
	}
	return most, errors.Join(err, ctx.Err())
}

// settled waits until smg holds no more than before, but not for ever, and says what it holds then.
func (s *scene) settled(ctx context.Context, before *standing) (*standing, error) {
	limit := time.Now().Add(10 * time.Second)
	for {
		now, err := s.standing(ctx)
		if err != nil || now.over(before) == 0 || time.Now().After(limit) {
			return now, err
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// over is how much more that is than before: requests that are counted, goroutines, files.
func (n *standing) over(before *standing) (sum int) {
	for _, count := range n.counters {
		sum += max(count, -count)
	}
	return sum + max(0, n.goroutines-before.goroutines) + max(0, n.files-before.files)
}

// excess says what there is more than before.
func (n *standing) excess(before *standing) string {
	var parts []string
	for name, count := range n.counters {
		if count != 0 {
			parts = append(parts, fmt.Sprintf("%s is %d", name, count))
		}
	}
	for _, p := range []struct {
		name      string
		now, then int
	}{{"goroutines", n.goroutines, before.goroutines}, {"files", n.files, before.files}} {
		if p.now > p.then {
			parts = append(parts, fmt.Sprintf("%d %s more than %d", p.now-p.then, p.name, p.then))
		}
	}
	return strings.Join(parts, ", ")
}

func (s *scene) standing(ctx context.Context) (*standing, error) {
	s.http.CloseIdleConnections()
	families, err := s.scrape(ctx)
	if err != nil {
		return nil, err
	}
	now := &standing{counters: map[string]int{}, goroutines: int(sumOf(families["go_goroutines"]))}
	for _, name := range idleGauges {
		now.counters[name] = int(sumOf(families[name]))
	}
	pid := s.gateway.cmd.Process.Pid
	files, _ := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
	now.files = len(files)
	if u, err := treeUsage(pid); err == nil {
		now.rss = u.RSS
	}
	return now, nil
}

func (s *scene) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.metrics+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

// sumOf adds up the series of a family; 0 without one.
func sumOf(f *dto.MetricFamily) (sum float64) {
	for _, m := range f.GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	return sum
}
