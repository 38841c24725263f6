# A route that the first ready worker answers.

cat >server/model_info_test.go <<'GO'
package server

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Recipe "Add a route": /model_info is what engines call /get_model_info today.
func TestModelInfoIsAskedOfAWorker(t *testing.T) {
	w := engine.Start(t, engine.Config{Models: []string{"m1"}})
	g := start(t, nil, w)
	got := g.get(t, "/model_info")
	require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
	require.Contains(t, got.Body, `"model_path":"m1"`)
}
GO
replace server/pipelines_test.go '"GET /get_server_info",' '"GET /get_server_info", "GET /model_info",'
red "unknown_url" go test ./server -run 'ModelInfo|Pipelines'

insert server/routes.go after 'a.public(g.proxied("GET /get_server_info",' <<'GO'
	a.public(g.proxied("GET /model_info", ""))
GO
green go test ./server -run 'ModelInfo|Pipelines'

red "Page" go test ./server -run "$pages"
golden
green go test ./server -run "$pages"
green grep --quiet "GET /model_info" docs/stages.md
