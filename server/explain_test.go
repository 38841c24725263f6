package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/workers"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"Hello"}]}`

// explained asks a gateway to explain a request.
func (g *running) explained(t testing.TB, route, body string, headers ...string) (e stages.Explanation) {
	t.Helper()
	r := g.post(t, "/explain?route="+route, body, headers...)
	require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.NoError(t, json.Unmarshal([]byte(r.Body), &e))
	require.Equal(t, r.Header.Get("X-Request-Id"), e.RequestID)
	return e
}

func fleetOf(t testing.TB, n int) (engines []*engine.Running) {
	for range n {
		engines = append(engines, engine.Start(t, engine.Config{Models: []string{"m"}}))
	}
	return engines
}

// named is a worker as an explanation names it.
func named(w *workers.Worker) stages.ExplainedWorker {
	return stages.ExplainedWorker{ID: w.ID().String(), URL: w.URL()}
}

// urls are those of explained workers.
func urls(list []stages.ExplainedWorker) (found []string) {
	for _, w := range list {
		found = append(found, w.URL)
	}
	return found
}

// The candidates, those left out and by which stage, each one's score in its parts, and the choice.
func TestExplainTellsWhoWouldGetTheRequestAndWhy(t *testing.T) {
	g := start(t, func(c *Config) { c.Policy, c.LoadMonitorInterval = "least_load", 3600 }, fleetOf(t, 5)...)
	g.serving(t, 5)
	all := g.gateway.registry.All()
	for _, w := range all { // each first report tells what is overloaded; the next ones come in an hour
		g.until(t, func() bool { return w.Report() != nil })
	}
	all[3].SetReport(workers.NewReport(time.Now(), time.Now(), "", []workers.RankLoad{{WaitingTokens: 4000}}))
	all[0].SetStatus(workers.NotReady)
	trip(t, all[1])
	all[2].SetOverloaded(true)

	e := g.explained(t, "", hello)
	require.Equal(t, "POST /v1/chat/completions", e.Route)
	require.Equal(t, "m", e.Model)
	require.Equal(t, "least_load", e.Policy)
	require.Equal(t, []string{all[3].URL(), all[4].URL()}, urls(e.Candidates))
	require.Equal(t, []stages.ExplainedLeaving{
		{ExplainedWorker: named(all[0]), Stage: "available", Reason: "not_ready"},
		{ExplainedWorker: named(all[1]), Stage: "breaker", Reason: "open"},
		{ExplainedWorker: named(all[2]), Stage: "overload", Reason: "overloaded"},
	}, e.LeftOut)
	require.Equal(t, named(all[4]), *e.Choice)
	require.Nil(t, e.Error)
	require.Len(t, e.Scores, 2)
	for i, s := range e.Scores {
		require.Equal(t, e.Candidates[i], s.ExplainedWorker)
		require.NotNil(t, s.Score)
		require.NotEmpty(t, s.Parts)
	}
	require.Less(t, *e.Scores[1].Score, *e.Scores[0].Score, "the lowest score wins")
	require.Zero(t, all[4].InFlight())
}

// A request that would be refused has an explanation too; the gateway refuses to explain only what it cannot.
func TestExplainTellsWhatWouldBeRefused(t *testing.T) {
	tests := []struct {
		name, route, body string
		headers           []string
		status            int
		code              string
	}{
		{"a model that nobody serves", "", strings.Replace(hello, `"m"`, `"x"`, 1), nil, 404, "model_not_found"},
		{"a body that is no JSON", "", "{", nil, 400, "invalid_json"},
		{"a field that is missing", "", `{"model":"m"}`, nil, 400, "missing_required_parameter"},
		{"another route, with its own rules", "/rerank", `{"model":"m","query":"q"}`, nil, 400, "missing_required_parameter"},
		{"a body that is compressed", "", hello, []string{"Content-Encoding", "gzip"}, 415, "unsupported_content_encoding"},
	}
	g := start(t, nil, fleetOf(t, 1)...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := g.explained(t, tt.route, tt.body, tt.headers...)
			require.Nil(t, e.Choice)
			require.NotNil(t, e.Error)
			require.Equal(t, tt.status, e.Error.Status)
			require.Equal(t, tt.code, e.Error.Code)
			require.NotEmpty(t, e.Error.Message)
			if tt.code == "model_not_found" {
				require.Equal(t, "x", e.Model)
			}
			require.NotNil(t, e.Candidates, "an empty list is a list")
		})
	}
	g.gateway.registry.All()[0].SetStatus(workers.NotReady)
	e := g.explained(t, "/generate", `{"text":"x"}`)
	require.Equal(t, "no_available_workers", e.Error.Code)
	require.Equal(t, "round_robin", e.Policy, "it is known although it was not asked")
	require.Len(t, e.LeftOut, 1)
}

func TestExplainKnowsTheRoutesThatChoose(t *testing.T) {
	g := start(t, nil, fleetOf(t, 1)...)
	for _, route := range allRoutes {
		method, path, _ := strings.Cut(route, " ")
		r := g.post(t, "/explain?route="+method+"+"+path, `{"model":"m"}`)
		chooses := strings.HasPrefix(route, "POST /v1/") || route == "POST /generate" || route == "POST /rerank"
		require.Equal(t, chooses, r.StatusCode == http.StatusOK, "%s: %s", route, r.Body)
		if !chooses {
			require.Equal(t, http.StatusBadRequest, r.StatusCode)
			require.Contains(t, r.Body, `"code":"BAD_REQUEST"`)
			require.Contains(t, r.Body, "POST /v1/chat/completions, POST /v1/completions", "the routes that there are")
		}
	}
	require.Equal(t, "POST /generate", g.explained(t, "/generate", `{"text":"x"}`).Route, "a path is enough")
	require.Equal(t, http.StatusBadRequest, g.post(t, "/explain?route=%zz", hello).StatusCode)
	require.Equal(t, http.StatusMethodNotAllowed, g.get(t, "/explain").StatusCode)
}

// The limit of bodies is that of the route, and of the question.
func TestExplainReadsNoMoreThanTheRouteWould(t *testing.T) {
	g := start(t, func(c *Config) { c.MaxPayloadSize = 100 }, fleetOf(t, 1)...)
	require.Equal(t, "POST /v1/chat/completions", g.explained(t, "", hello).Route)
	r := g.post(t, "/explain", hello+strings.Repeat(" ", 100))
	require.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
}

// Explain answers for all policies and changes nothing.
func TestExplainChangesNothingWhateverThePolicy(t *testing.T) {
	for i, name := range append(policy.Names(), "round_robin") {
		sticky := i == len(policy.Names())
		t.Run(fmt.Sprintf("%s, sticky %t", name, sticky), func(t *testing.T) {
			engines := fleetOf(t, 3)
			g := start(t, func(c *Config) { c.Policy, c.RoutingKeyOverride = name, sticky }, engines...)
			g.serving(t, 3)
			for k := range 5 {
				r := g.post(t, "/v1/chat/completions", prompted(k), "X-SMG-Routing-Key", fmt.Sprint("key", k))
				require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
			}
			g.quiet(t)
			asked := requestsOf(engines)
			before := g.countedElsewhere(t)
			for k := range 20 {
				e := g.explained(t, "", prompted(k), "X-SMG-Routing-Key", fmt.Sprint("key", k), "X-SMG-Explain", "1")
				require.Equal(t, name, e.Policy)
				require.Nil(t, e.Error)
				require.Len(t, e.Candidates, 3)
				require.NotNil(t, e.Choice)
				require.Contains(t, urls(e.Candidates), e.Choice.URL)
			}
			for name, now := range g.countedElsewhere(t) {
				require.True(t, before[name] == now, "%s was\n%s\nand is\n%s", name, before[name], now)
			}
			require.Equal(t, asked, requestsOf(engines), "no engine is asked")
			for _, w := range g.gateway.registry.All() {
				require.Zero(t, w.InFlight())
			}
		})
	}
}

func prompted(k int) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat(fmt.Sprint("prompt ", k), 40))
}

// requestsOf are how many requests of clients each engine got; probes and polls go on.
func requestsOf(engines []*engine.Running) (counts []int) {
	for _, e := range engines {
		n := 0
		for _, r := range e.Requests() {
			if r.Method == http.MethodPost {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// countedElsewhere are the metrics that POST /explain must leave alone: what is counted of choices, of workers and of routed
// requests. Probes and polls of workers go on meanwhile.
func (g *running) countedElsewhere(t *testing.T) map[string]string {
	counted := regexp.MustCompile(`^smg_(router_request|worker_(requests|selection|retries|routing|overload|cb)|cache|.*_policy_|routing_key)`)
	found := map[string]string{}
	for name, family := range g.page(t) {
		if counted.MatchString(name) {
			found[name] = family.String()
		}
	}
	require.Greater(t, len(found), 10)
	return found
}

// Rotations, pins, rings and trees are where they were: what is foretold happens, however often it was asked before.
func TestWhatExplainForetellsHappens(t *testing.T) {
	tests := []struct {
		policy string
		sticky bool
	}{
		{"round_robin", false}, {"round_robin", true}, {"passthrough", false}, {"consistent_hashing", false}, {"prefix_hash", false}, {"manual", false}, {"cache_aware", false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s, sticky %t", tt.policy, tt.sticky), func(t *testing.T) {
			g := start(t, func(c *Config) { c.Policy, c.RoutingKeyOverride = tt.policy, tt.sticky }, fleetOf(t, 3)...)
			g.serving(t, 3)
			key := []string{"X-SMG-Routing-Key", "a key"}
			require.Equal(t, http.StatusOK, g.post(t, chatPath, prompted(0), key...).StatusCode) // the first choice may be by lot
			g.quiet(t)
			for range 7 {
				var foretold string
				for k := range 4 {
					foretold = g.explained(t, "", prompted(0), key...).Choice.URL
					g.explained(t, "", prompted(k), "X-SMG-Routing-Key", fmt.Sprint("another key", k)) // leaves no trace either
				}
				r := g.post(t, chatPath, prompted(0), key...)
				require.Equal(t, foretold, r.Header.Get("X-Smg-Routed-Worker-Id"))
				g.quiet(t)
			}
		})
	}
}

// DESIGN.md section 3: explain runs the chain that the route has, stages of others included.
func TestExplainRunsTheChainThatIsServed(t *testing.T) {
	var ran atomic.Int64
	g := start(t, nil, fleetOf(t, 2)...)
	g.serving(t, 2)
	first := g.gateway.registry.All()[0]
	picky := pipeline.StageFunc("picky", pipeline.Contract{Needs: []pipeline.Fact{pipeline.Candidates}}, func(x *pipeline.Exchange, next pipeline.Next) error {
		ran.Add(1)
		x.Explain.Leave(first, "picky", "not to its taste")
		x.Candidates = x.Keep(func(w *workers.Worker) bool { return w != first })
		return next(x)
	})
	chains, err := g.gateway.chains()
	require.NoError(t, err)
	chains[0], err = chains[0].After("available", picky)
	require.NoError(t, err)
	require.NoError(t, g.gateway.use(chains))
	e := g.explained(t, "", hello)
	require.EqualValues(t, 1, ran.Load())
	require.Equal(t, []stages.ExplainedLeaving{{ExplainedWorker: named(first), Stage: "picky", Reason: "not to its taste"}}, e.LeftOut)
	require.NotEqual(t, first.URL(), e.Choice.URL)
}

// What must not happen to a request that is only rehearsed, and what a custom chain may have that the gateway has not.
func TestARehearsalGoesWithoutTheStagesThatCountAndTryAgain(t *testing.T) {
	g := start(t, func(c *Config) { c.ExplainHeader = true })
	for _, c := range *g.gateway.served.Load() {
		if !hasStage(c, "policy") {
			continue
		}
		dry, err := rehearsal(c)
		require.NoError(t, err)
		var names []string
		for _, s := range dry.Stages() {
			names = append(names, s.Name())
		}
		want := "payload_limit buffer body model prompt routing_key explain_header candidates available breaker overload untried policy"
		if hasStage(c, "form") {
			want = "payload_limit form model prompt routing_key explain_header candidates whole_engines available breaker overload untried policy"
		}
		require.Equal(t, want, strings.Join(names, " "), c.Route())
	}
}

// The response header is off unless --explain-header, and then for those who ask.
func TestTheExplainHeaderIsOffUnlessAskedForTwice(t *testing.T) {
	for _, on := range []bool{false, true} {
		g := start(t, func(c *Config) { c.ExplainHeader = on }, fleetOf(t, 1)...)
		chain := (*g.gateway.served.Load())[0]
		require.Equal(t, on, hasStage(chain, "explain_header"), "a stage that is off is not there")
		require.Empty(t, g.post(t, chatPath, hello).Header.Get("X-Smg-Explain"))
		told := g.post(t, chatPath, hello, "X-Smg-Explain", "1").Header.Get("X-Smg-Explain")
		if !on {
			require.Empty(t, told)
			continue
		}
		var e stages.Explanation
		require.NoError(t, json.Unmarshal([]byte(told), &e), told)
		require.Equal(t, "round_robin", e.Policy)
		require.Equal(t, named(g.gateway.registry.All()[0]), *e.Choice)
	}
}
