# A counter of the workers that were asked for through the API.

insert telemetry/metrics_test.go before '"smg_worker_cb_consecutive_failures gauge' <<'GO'
		"smg_worker_additions_total counter []",
GO
red "smg_worker_additions_total" go test ./telemetry -run Families

insert telemetry/workermetrics.go after 'type WorkerMetrics struct {' <<'GO'
	Additions prometheus.Counter // smg_worker_additions_total

GO
insert telemetry/workermetrics.go after 'families: f, models: models, current:' <<'GO'
		Additions: f.counter("smg_worker_additions_total", "Workers that were asked for by POST /workers."),
GO
green go test ./telemetry -run Families

cat >server/additions_test.go <<'GO'
package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Recipe "Add a metric": an addition counts when it was accepted.
func TestAdditionsOfWorkersAreCounted(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, nil)
	g.becomes(t, g.add(t, `{"url":"`+w.URL+`"}`), "ready")
	require.Equal(t, 1.0, testutil.ToFloat64(g.gateway.metrics.Workers.Additions))
}
GO
red "expected: 1" go test ./server -run Additions

insert server/workers_api.go before 'location := "/workers/" + id.String()' <<'GO'
		g.metrics.Workers.Additions.Inc()
GO
green go test ./server -run Additions

red "Page" go test ./telemetry -run "$pages"
golden
green go test ./telemetry -run "$pages"
green grep --quiet smg_worker_additions_total docs/metrics.md
