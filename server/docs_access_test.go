package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const accessIntro = `# Who may do what

Every route is asked with every credential, of gateways with each way to configure authentication; this page is what comes of it. It is
rendered by the test that asks: run ` + "`go test ./server -run Page -update`" + ` after a change, and read what has changed.

A credential goes into ` + "`Authorization: Bearer`" + ` and nowhere else. ✓ is let in; 401 is ` + "`invalid_api_key`" + `, 403 is ` + "`admin_role_required`" + `.
What the gateway checks it keeps: no worker sees it, each gets the key that it was registered with. Where nothing is configured for
callers, what they send in ` + "`Authorization`" + ` goes to the worker, unless it is an operator's key or token.

A start logs one warning that names all that is open without authentication. The listeners for metrics and probes ask for nothing.
`

// tierTexts say who the routes of a tier are for.
var tierTexts = map[tier]string{
	public:  "For everybody, and so are paths that there are not (404).",
	serving: "For callers: `--api-key`, `--tenant-api-key`.",
	control: "For operators: `--control-plane-api-keys`, tokens (`--jwt-issuer`, `--jwt-audience`); without those `--api-key`.",
}

// http-dataplane.md, section 12; workers.md, section 20
func TestPageOfAccess(t *testing.T) {
	w := newWorld(t)
	tables := map[tier]*strings.Builder{public: {}, serving: {}, control: {}}
	routes := map[tier][]string{}
	for _, s := range w.settings() {
		g := w.gateway(t, s)
		for of, b := range tables {
			routes[of] = g.routes(of)
			fmt.Fprintf(b, "| %s | %s |\n", s.title, strings.Join(w.outcomes(t, g, routes[of]), " | "))
		}
		for _, name := range credentialNames() {
			require.Equal(t, http.StatusNotFound, g.ask(t, "GET /nope", w.credentials[name]).StatusCode)
		}
	}
	var b strings.Builder
	b.WriteString(accessIntro)
	for _, of := range []tier{serving, control, public} {
		fmt.Fprintf(&b, "\n## %s%s routes\n\n%s\n\n%s\n", strings.ToUpper(of.String()[:1]), of.String()[1:], tierTexts[of], codes(routes[of]))
		fmt.Fprintf(&b, "\n| Configured | %s |\n|---|%s\n%s", strings.Join(credentialNames(), " | "), strings.Repeat("---|", len(credentialNames())), tables[of])
	}
	rendered(t, "docs/access.md", b.String())
}

// routes are those of a tier.
func (g *guarded) routes(of tier) (routes []string) {
	inner := g.gateway.gateway
	for _, c := range *inner.served.Load() {
		if inner.tiers[c.Route()] == of && c.Route() != unmatched {
			routes = append(routes, c.Route())
		}
	}
	return routes
}

// outcomes is what becomes of requests with each credential; it is the same on all of the routes.
func (w *world) outcomes(t *testing.T, g *guarded, routes []string) (first []string) {
	t.Helper()
	require.NotEmpty(t, routes)
	for _, route := range routes {
		var all []string
		for _, name := range credentialNames() {
			all = append(all, w.outcome(t, g, route, name))
		}
		if first == nil {
			first = all
		}
		require.Equal(t, first, all, "%s differs from %s", route, routes[0])
	}
	return first
}

// outcome asks once, and checks that a refusal has the form that its client understands.
func (w *world) outcome(t *testing.T, g *guarded, route, credential string) string {
	t.Helper()
	r := g.ask(t, route, w.credentials[credential])
	if !slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, r.StatusCode) {
		return "✓"
	}
	code := map[int]string{http.StatusUnauthorized: "invalid_api_key", http.StatusForbidden: "admin_role_required"}[r.StatusCode]
	require.NotEmpty(t, r.Header.Get("X-Request-Id"))
	require.Equal(t, code, r.Header.Get("X-Smg-Error-Code"))
	require.Equal(t, r.StatusCode == http.StatusUnauthorized, r.Header.Get("WWW-Authenticate") != "")
	if strings.Contains(route, "/v1/messages") {
		require.Contains(t, r.Body, `"type":"authentication_error"`)
	} else {
		require.Contains(t, r.Body, `"code":"`+code+`"`)
	}
	return fmt.Sprint(r.StatusCode)
}
