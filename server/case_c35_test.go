package server

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	prommodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// page is the metrics page, read as Prometheus would read it.
func (g *running) page(t testing.TB) map[string]*dto.MetricFamily {
	t.Helper()
	resp, err := http.Get(g.Metrics)
	require.NoError(t, err)
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(prommodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	return families
}

// seriesOf names every series of our own on the page. What the Go runtime says of itself is not ours.
func seriesOf(page map[string]*dto.MetricFamily) map[string]bool {
	names := map[string]bool{}
	for name, family := range page {
		if !strings.HasPrefix(name, "smg_") {
			continue
		}
		for _, m := range family.Metric {
			var b strings.Builder
			b.WriteString(name)
			for _, l := range m.Label {
				fmt.Fprintf(&b, " %s=%q", l.GetName(), l.GetValue())
			}
			names[b.String()] = true
		}
	}
	return names
}

// Case C35 (label explosion), telemetry.md: neither a client nor a worker can make series without limit, whatever part of a request
// or an answer it makes up. What made-up values do make, other made-up values do not make again.
func TestC35MadeUpValuesMakeNoSeries(t *testing.T) {
	for _, igw := range []bool{false, true} {
		t.Run(fmt.Sprintf("IGW %v", igw), func(t *testing.T) {
			e := engine.Start(t, engine.Config{Keep: -1})
			g := start(t, func(c *Config) {
				c.EnableIGW, c.DisableRetries, c.CBFailureThreshold, c.LogLevel = igw, true, 1<<30, "error"
			}, e)
			require.Equal(t, http.StatusOK, g.post(t, chatPath, chat).StatusCode)
			before := seriesOf(g.page(t))
			g.flood(t, e)
			after := seriesOf(g.page(t))
			require.Less(t, len(after)-len(before), 1100)
			g.flood(t, e)
			began := time.Now()
			again := seriesOf(g.page(t))
			require.Less(t, time.Since(began), 5*time.Second, "five times the second of the case")
			for name := range again {
				require.Contains(t, after, name, "a second flood makes nothing new")
				require.NotContains(t, strings.ToLower(name), madeUp)
			}
			g.quiet(t)
		})
	}
}

// madeUp begins every made-up value; random follows.
const madeUp = "zq9"

func makeUp() string { return fmt.Sprintf("%s%016x", madeUp, rand.Uint64()) }

// flood sends requests whose every part that may be made up is.
func (g *running) flood(t *testing.T, e *engine.Running) {
	t.Helper()
	const each = 50
	chatFor := func(m string) string { return `{"model":` + m + `,"messages":[{"role":"user","content":"hi"}]}` }
	e.SetFaults()
	for i := range each {
		g.post(t, chatPath, chatFor(`"`+makeUp()+`"`))
		g.get(t, "/"+makeUp())
		g.get(t, "/v1/responses/"+makeUp())
		g.get(t, "/v1/models/"+makeUp())
		g.get(t, "/workers/"+makeUp())
		g.do(t, strings.ToUpper(makeUp()), chatPath, "")
		g.do(t, strings.ToUpper(makeUp()), "/"+makeUp(), "")
		g.get(t, "/health?"+makeUp()+"="+makeUp())
		g.post(t, chatPath, chat, "X-SMG-Routing-Key", makeUp(), "X-SMG-Tenant-ID", makeUp(), "X-Request-ID", makeUp(),
			"X-SMG-Priority", makeUp(), "X-SMG-Target-Worker", makeUp(), "User-Agent", makeUp())
		g.post(t, chatPath, chat[:len(chat)-1]+`,"`+makeUp()+`":"`+makeUp()+`","user":"`+makeUp()+`"}`)
		g.post(t, chatPath, makeUp())
		e.SetFaults(engine.Fault{
			Status: 500 + 2*i, Body: engine.Text(fmt.Sprintf(`{"error":{"code":%q,"type":%q}}`, makeUp(), makeUp())),
			Headers: engine.Headers{"X-SMG-Error-Code: " + makeUp(), "X-" + makeUp() + ": 1"},
		})
		g.post(t, chatPath, chat)
		e.SetFaults(engine.Fault{Status: 400 + 2*i, Headers: engine.Headers{"X-SMG-Error-Code: " + makeUp()}})
		g.post(t, chatPath, chat)
		e.SetFaults(engine.Fault{Body: engine.Text(fmt.Sprintf(`{"model":%q,"usage":{"prompt_tokens":%d,%q:1}}`, makeUp(), i, makeUp()))})
		g.post(t, chatPath, chat)
		e.SetFaults()
	}
	for _, m := range []string{`"a\"b"`, `"a\nb"`, `"a\\b"`, `"é"`, `"\ud83d"`, `"\u0000"`, "\"\xff\"", `" "`, `"` + strings.Repeat("z", 1<<20) + `"`} {
		g.post(t, chatPath, chatFor(m))
	}
}

// C35: models that are served get series of their own as long as there are few: when 1024 others have, one more is "other".
func TestC35ModelsAreNotCountedWithoutLimit(t *testing.T) {
	g := start(t, nil, engine.Start(t, engine.Config{Models: []string{"one-more"}}))
	for i := range 1024 {
		g.gateway.metrics.ModelLabel(fmt.Sprintf("m%d", i), true)
	}
	require.Equal(t, http.StatusOK, g.post(t, chatPath, strings.Replace(chat, "m1", "one-more", 1)).StatusCode)
	g.quiet(t)
	counters, _ := g.numbers(t)
	var others int
	for name := range counters {
		require.NotContains(t, name, `model="one-more"`)
		if strings.HasPrefix(name, "smg_router_requests_total") && strings.Contains(name, `model="other"`) {
			others++
		}
	}
	require.NotZero(t, others)
}

// C35: nor do names of models that a worker takes because it names none itself.
func TestC35AWorkerThatTakesEveryModelMakesNoSeries(t *testing.T) {
	w := startHTTPWorker(t, workerPlan{Models: `{"object":"list","data":[]}`})
	g := start(t, nil)
	require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+w.URL+`","runtime_type":"vllm"}`).StatusCode)
	g.serving(t, 1)
	ask := func() {
		for range 20 {
			r := g.post(t, chatPath, strings.Replace(chat, "m1", makeUp(), 1))
			require.Equal(t, http.StatusOK, r.StatusCode, r.Body)
		}
	}
	ask()
	after := seriesOf(g.page(t))
	ask()
	for name := range seriesOf(g.page(t)) {
		require.Contains(t, after, name)
		require.NotContains(t, name, madeUp)
	}
}

// C35: names with quotes, line ends and bytes that are no text are shown so that the page can be read, wherever they come from.
func TestC35OddNamesDoNotBreakThePage(t *testing.T) {
	for name, m := range map[string]string{
		"quotes": `a"b`, "a backslash": `a\b`, "a line end": "a\nb", "braces": `a{b="c"} 1`, "no text": "a\xffb", "8 KiB": strings.Repeat("z", 8<<10),
	} {
		t.Run(name, func(t *testing.T) {
			e := engine.Start(t, engine.Config{Models: []string{m}})
			g := start(t, nil, e)
			for _, w := range g.gateway.registry.All() {
				r := g.post(t, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, w.Model()))
				require.Less(t, r.StatusCode, 500)
			}
			require.NotEmpty(t, seriesOf(g.page(t)))
			require.Less(t, len(g.metricsText(t)), 4<<20)
		})
	}
}
