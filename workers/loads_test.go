package workers

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// source is how a real server is asked, as the engine of a runtime.
func source(e *fakeEngine, runtime Runtime) *loadSource {
	c := newClients(false)
	return &loadSource{engine: c.to(&Endpoint{Base: e.URL}, "", false), runtime: runtime}
}

// paths are what an engine was asked for.
func (e *fakeEngine) paths() string {
	var all []string
	for _, r := range e.requests() {
		all = append(all, strings.TrimPrefix(r.URL.Path, "/"))
	}
	return strings.Join(all, " ")
}

// load-signals.md, sections 3.2 and 3.3; DECISIONS 45. A row polls three times: "v1/loads" and "metrics" are what the engine is asked.
func TestWhereALoadIsAskedFor(t *testing.T) {
	const (
		gauge = "vllm:kv_cache_usage_perc 0.5\nsglang:token_usage 0.5\n"
		good  = `{"loads":[{"token_usage":0.25}]}`
		every = "v1/loads metrics v1/loads metrics v1/loads metrics"
		once  = "v1/loads metrics metrics metrics"
	)
	tests := []struct {
		name           string
		runtime        Runtime
		loads, metrics page
		asked          string
		result         PollResult
		usage          float64
	}{
		{"loads are enough", SGLang, ok(good), ok(gauge), "v1/loads v1/loads v1/loads", PollOK, 0.25},
		{"loads of any engine", Generic, ok(good), ok(gauge), "v1/loads v1/loads v1/loads", PollOK, 0.25},
		{"404 is remembered", VLLM, status404, ok(gauge), once, PollOK, 0.5},
		{"405 is remembered", VLLM, answers(405), ok(gauge), once, PollOK, 0.5},
		{"501 is remembered", SGLang, answers(501), ok(gauge), once, PollOK, 0.5},
		{"no loads now is not", VLLM, ok(`{"loads":[]}`), ok(gauge), every, PollOK, 0.5},
		{"an error is not", VLLM, answers(500), ok(gauge), every, PollOK, 0.5},
		{"a refused key is not", VLLM, answers(401), ok(gauge), every, PollOK, 0.5},
		{"nor is 403", VLLM, answers(403), ok(gauge), every, PollOK, 0.5},
		{"nor is 503", VLLM, answers(503), ok(gauge), every, PollOK, 0.5},
		{"an answer that is no load object is remembered, but not the first time", VLLM, ok(`{"detail":"x"}`), ok(gauge), every + " metrics", PollOK, 0.5},
		{"an engine of another kind has no second source", Generic, status404, ok(gauge), "v1/loads", PollUnsupported, 0},
		{"nor has this one", TRTLLM, answers(500), ok(gauge), "v1/loads v1/loads v1/loads", PollError, 0},
		{"a page without the gauge is no report", VLLM, status404, ok("vllm:num_requests_waiting 0\n"), once, PollEmpty, 0},
		{"neither source is there", SGLang, status404, status404, once, PollUnsupported, 0},
		{"the second source fails", SGLang, status404, answers(500), once, PollError, 0},
		{"both fail: the worse counts", SGLang, ok(`{"loads":[]}`), answers(500), every, PollError, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, nil)
			e.pages = map[string]page{"/v1/loads": tt.loads, "/metrics": tt.metrics}
			s := source(e, tt.runtime)
			polls := 3
			if strings.HasSuffix(tt.asked, "metrics metrics") && strings.HasPrefix(tt.asked, every) {
				polls = 4
			}
			var got polled
			for range polls {
				got = s.poll(t.Context())
			}
			require.Equal(t, tt.asked, e.paths())
			require.Equal(t, tt.result, got.result)
			if tt.result == PollOK {
				require.Equal(t, tt.usage, NewReport(time.Time{}, time.Time{}, got.timestamp, got.ranks).Usage)
				require.NoError(t, got.err)
			} else {
				require.Error(t, got.err)
			}
		})
	}
}

var status404 = page{http.StatusNotFound, ""}

func answers(status int) page { return page{status, ""} }

// load-signals.md, section 3.3: one bad answer never changes how an engine is asked for good (DECISIONS 45)
func TestStrangeAnswersAreForgottenAfterAGoodOne(t *testing.T) {
	e := startEngine(t, map[string]page{})
	s := source(e, Generic)
	for range 5 {
		for range maxStrangers - 1 {
			e.set("/v1/loads", ok("<html>"))
			require.Equal(t, PollError, s.poll(t.Context()).result)
		}
		e.set("/v1/loads", ok(`{"loads":[{"token_usage":0.25}]}`))
		require.Equal(t, PollOK, s.poll(t.Context()).result)
	}
	require.Len(t, e.requests(), 5*maxStrangers)
}

// load-signals.md, section 3.2: answers are bounded
func TestALoadThatNeverEndsIsNone(t *testing.T) {
	e := startEngine(t, map[string]page{"/v1/loads": ok(strings.Repeat(" ", maxPage) + `{"loads":[{"token_usage":0.25}]}`)})
	got := source(e, Generic).poll(t.Context())
	require.Equal(t, PollError, got.result)
	require.ErrorContains(t, got.err, "longer than")
}

// load-signals.md, section 3.3, last Check: it times out once, then answers
func TestATimeoutIsNotRemembered(t *testing.T) {
	e := startEngine(t, map[string]page{"/v1/loads": ok(`{"loads":[{"token_usage":0.25}]}`)})
	s := source(e, Generic)
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	require.Equal(t, PollTimeout, s.poll(late).result)
	require.Equal(t, PollOK, s.poll(t.Context()).result)
}

// DECISIONS 61: a real vLLM answers 404 at /v1/loads, and this page
func TestLoadOfARealPage(t *testing.T) {
	body, err := os.ReadFile("testdata/vllm-metrics.txt")
	require.NoError(t, err)
	e := startEngine(t, map[string]page{"/metrics": ok(string(body))})
	s := source(e, VLLM)
	for range 2 {
		got := s.poll(t.Context())
		require.Equal(t, PollOK, got.result)
		require.EqualValues(t, 8192, got.ranks[0].Capacity)
	}
	require.Equal(t, "v1/loads metrics metrics", e.paths())
}
