package discovery_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
	"github.com/smg-go/smg/server"
)

// discovery.md, section 21: D37, and section 11: a change by hand keeps the pod's labels.
func TestD37TheRanksOfAPodComeAndGoTogether(t *testing.T) {
	t.Parallel()
	s := started(t, func(cfg *server.Config) { cfg.DPAware = true })
	e := clustertest.StartEngine(t)
	e.SetFaults(engine.Fault{Path: "/server_info", Status: http.StatusOK, Body: `{"dp_size":4,"served_model_name":"m1"}`})
	ranks := func(uid string) map[string]string {
		want := map[string]string{}
		for rank := range 4 {
			want[fmt.Sprintf("%s@%d", e.URL(), rank)] = uid
		}
		return want
	}
	for turn, patched := range []bool{false, true} {
		p := s.pods.Run(t, pod("p1", e.IP))
		s.serving(t, ranks(p.UID))
		if patched {
			two := e.URL() + "@2"
			status, answer := s.do(t, "PATCH", "/workers/"+s.workers(t)[two].ID, `{"labels":{"tier":"gold"}}`)
			require.Equal(t, http.StatusAccepted, status, answer)
			s.until(t, "the rank is another revision", func() bool { return s.workers(t)[two].Labels["tier"] == "gold" })
			s.serving(t, ranks(p.UID))
		}
		s.pods.Delete(t, "p1")
		s.serving(t, map[string]string{})
		n := float64(turn + 1)
		require.Equal(t, [2]float64{n, n}, s.jobs(t), "one job for all ranks")
	}
}
