package server

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

// workers.md section 18: the list is put together from parts that are encoded already, and is what encoding it as a whole gives.
func TestListOfWorkersIsEncodedAsAWhole(t *testing.T) {
	g := start(t, nil)
	for n := range 3 {
		want := encodedList(t, g.gateway.registry.All())
		for range 2 { // when nothing is known yet, and when all is
			got := g.get(t, "/workers")
			require.Equal(t, http.StatusOK, got.StatusCode)
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.Equal(t, want, got.Body)
		}
		g.registerDescribed(t, n)
	}
}

func encodedList(t *testing.T, all []*workers.Worker) string {
	t.Helper()
	list := struct {
		Workers []workers.View `json:"workers"`
		Total   int            `json:"total"`
		Stats   struct {
			Prefill int `json:"prefill_count"`
			Decode  int `json:"decode_count"`
			Regular int `json:"regular_count"`
		} `json:"stats"`
	}{Workers: []workers.View{}, Total: len(all)}
	for _, w := range all {
		list.Workers = append(list.Workers, w.View())
		list.Stats.Regular++
	}
	js, err := json.Marshal(list)
	require.NoError(t, err)
	return string(js)
}
