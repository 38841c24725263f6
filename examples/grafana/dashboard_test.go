package grafana_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// dashboard is what these tests read of dashboard.json.
type dashboard struct {
	UID, Title string
	Time       struct{ From, To string }
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type, AllValue string
	Definition           string
	IncludeAll           bool
	Query                json.RawMessage
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                struct{ UID string }
}

func loadDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// filled is an expression as Grafana sends it while every variable is at its default, All.
func filled(t *testing.T, expr string) string {
	t.Helper()
	expr = strings.NewReplacer("$__rate_interval", rateInterval, "$namespace", ".*", "$pod", ".*", "$instance", ".*", "$model", ".*").Replace(expr)
	require.NotContains(t, expr, "$", "a variable that the dashboard does not have")
	return expr
}

// telemetry.md, section 9
func TestDashboardNamesWhatSmgEmits(t *testing.T) {
	known := emitted(t)
	for _, p := range loadDashboard(t).Panels {
		for _, q := range p.Targets {
			for _, sentence := range unknown(known, filled(t, q.Expr), q.LegendFormat) {
				t.Errorf("%s %s: %s", p.Title, q.RefID, sentence)
			}
		}
	}
}

// telemetry.md, section 9
func TestDashboardIsWhereItWasLookedFor(t *testing.T) {
	d := loadDashboard(t)
	require.Equal(t, "smg-overview", d.UID)
	require.Equal(t, "SMG Overview", d.Title)
	require.Equal(t, "now-1h", d.Time.From)
	require.Equal(t, "now", d.Time.To)
	names := []string{}
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
		if v.Type == "query" {
			require.True(t, v.IncludeAll, v.Name)
			require.Equal(t, ".*", v.AllValue, "%s: elsewhere than on Kubernetes series have no such label", v.Name)
		}
	}
	require.Equal(t, []string{"datasource", "namespace", "pod", "instance", "model"}, names)
	titles := []string{}
	for _, p := range d.Panels {
		titles = append(titles, p.Title)
	}
	for _, classic := range []string{"Request Rate", "Request Latency p99", "Active Workers", "Queue Depth"} {
		require.Contains(t, titles, classic)
	}
}

// What Grafana puts right in silence, or shows as a panel without data.
func TestPanelsAreWhole(t *testing.T) {
	type cell struct{ x, y int }
	ids, titles, taken := []int{}, []string{}, map[cell]string{}
	for _, p := range loadDashboard(t).Panels {
		require.NotContains(t, ids, p.ID, "%s: its id is another panel's", p.Title)
		require.NotContains(t, titles, p.Title, "two panels of one title")
		ids, titles = append(ids, p.ID), append(titles, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[cell{x, y}], "%s lies on another panel", p.Title)
				taken[cell{x, y}] = p.Title
			}
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, "%s: the grid has 24 columns", p.Title)
		if p.Type == "row" {
			continue
		}
		require.NotEmpty(t, p.Targets, p.Title)
		require.Equal(t, "${datasource}", p.Datasource.UID, p.Title)
		refs := []string{}
		for _, q := range p.Targets {
			require.Equal(t, "${datasource}", q.Datasource.UID, p.Title)
			require.NotContains(t, refs, q.RefID, p.Title)
			require.NotEmpty(t, q.LegendFormat, p.Title)
			refs = append(refs, q.RefID)
			requireFilters(t, p.Title, q.Expr)
		}
	}
}

// requireFilters demands that a query heeds the variables: every selector has those of the target, and that of the model where
// the metric has a model.
func requireFilters(t *testing.T, title, expr string) {
	t.Helper()
	known := emitted(t)
	r, err := read(filled(t, expr))
	require.NoError(t, err)
	for _, m := range r.metrics {
		for _, label := range []string{"namespace", "pod", "instance"} {
			require.Contains(t, m.labels, label, "%s: %s", title, m.name)
		}
		if slices.Contains(known[m.name], "model") {
			require.Contains(t, m.labels, "model", "%s: %s", title, m.name)
		}
	}
}
