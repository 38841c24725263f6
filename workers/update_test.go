package workers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// workers.md section 16
func TestParsePatch(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"nothing", `{}`, ""},
		{"what cannot be changed is ignored", `{"url":1,"worker_type":"nope","models":3}`, ""},
		{"not JSON", `{`, "Request body is not valid JSON"},
		{"no object", `[]`, "Request body must be a JSON object"},
		{"null", `null`, "Request body must be a JSON object"},
		{"a priority below 0", `{"priority":-1}`, "Invalid value for field 'priority': expected a whole number from 0 to 4294967295"},
		{"labels that are no strings", `{"labels":{"a":1}}`, "Invalid value for field 'labels': expected an object of strings"},
		{"a threshold of 0", `{"health":{"failure_threshold":0}}`, "Invalid value for field 'health.failure_threshold': expected a whole number from 1 to 4294967295"},
		{"a key that is no string", `{"api_key":1}`, "Invalid value for field 'api_key': expected a string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParsePatch([]byte(tt.body))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tt.want)
		})
	}
}

func FuzzParsePatch(f *testing.F) {
	for _, seed := range []string{`{}`, `{"priority":3,"cost":0.5,"labels":{"a":"b"},"api_key":"k","health":{"timeout_secs":1}}`, `{"labels":null}`, `[`} {
		f.Add([]byte(seed))
	}
	spec, err := ParseSpec([]byte(full))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := ParsePatch(body)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		require.True(t, json.Valid(body))
		_, err = New(p.apply(spec), DefaultSettings())
		require.NoError(t, err, "whatever is accepted makes a worker")
	})
}

// full is a spec that says everything.
const full = `{"url":"http://w:1","models":[{"id":"m","aliases":["a"],"context_length":4096}],"worker_type":"prefill","runtime_type":"sglang",
	"provider":"p","labels":{"a":"1","served_model_name":"m"},"priority":3,"cost":2.5,"api_key":"k1","bootstrap_port":8998,
	"kv_connector":"c","kv_role":"r","kv_engine_id":"e","kv_block_size":16,"health":{"failure_threshold":4,"drain_settle_secs":2},
	"http_pool":{"timeout_secs":7},"resilience":{"cb_failure_threshold":2,"max_retries":2},"overload":{"token_usage":0.9},
	"load_monitor_interval_secs":5}`

func patched(t *testing.T, e *Enroller, id ID, body string) *Worker {
	t.Helper()
	p, err := ParsePatch([]byte(body))
	require.NoError(t, err)
	was := e.registry.ByID(id)
	require.NoError(t, e.Update(id, p))
	eventually(t, "updated", func() bool { return e.registry.ByID(id) != was && !e.jobs.Busy(was.endpoint.Address) })
	return e.registry.ByID(id)
}

// workers.md section 16
func TestPatchKeepsEverythingElse(t *testing.T) {
	e := enrollerOf(t, quick, nil)
	spec, err := ParseSpec([]byte(full))
	require.NoError(t, err)
	w := add(t, e.registry, spec)
	w.SetStatus(NotReady)
	w.Begin()
	defer w.End()
	w.Breaker().Failure()
	now := patched(t, e, w.ID(), `{"labels":{"tier":"gold"},"cost":null,"health":{"timeout_secs":9}}`)

	want := w.spec.Clone()
	want.Labels = map[string]string{"a": "1", "served_model_name": "m", "tier": "gold"}
	want.Health = &HealthSpec{FailureThreshold: new(uint32(4)), DrainSettleSecs: new(uint32(2)), TimeoutSecs: new(uint32(9))}
	require.Equal(t, want, now.spec)
	require.EqualValues(t, 8998, *now.Spec().BootstrapPort)
	require.Equal(t, w.ID(), now.ID())
	require.EqualValues(t, 1, now.Revision())
	require.Equal(t, NotReady, now.Status())
	require.EqualValues(t, 1, now.InFlight())
	require.Same(t, w.Breaker(), now.Breaker(), "a patch does not change the breaker")
	require.Equal(t, 9*time.Second, now.Settings().Health.Timeout)
	require.Equal(t, 4, now.Settings().Health.FailureThreshold)
	require.Equal(t, "Bearer k1", now.Bearer())

	now = patched(t, e, w.ID(), `{"priority":9,"cost":0.5,"api_key":"k2"}`)
	require.EqualValues(t, 9, now.Spec().Priority)
	require.InDelta(t, 0.5, now.Spec().Cost, 0)
	require.Equal(t, "Bearer k2", now.Bearer())
	require.Equal(t, "gold", now.Spec().Labels["tier"])
	require.EqualValues(t, 2, now.Revision())
}

// workers.md section 16: a patch preserves models and kv_*, whatever its labels would have said at the registration.
func TestPatchOfLabelsMovesNoWorker(t *testing.T) {
	tests := []struct{ name, spec, labels string }{
		{"a worker of every model", `{}`, `{"served_model_name":"x","model_path":"y"}`},
		{"a worker of one model", `{"models":[{"id":"m"}]}`, `{"served_model_name":"x"}`},
		{"what a card leaves open", `{"models":[{"id":"m"}]}`, `{"max_model_len":"4096","supports_vision":"true","tool_parser":"t"}`},
		{"a model named by a label", `{"labels":{"served_model_name":"m"}}`, `{"served_model_name":"x"}`},
		{"fields of the KV transfer", `{"kv_connector":"c"}`, `{"kv_connector":"d","kv_role":"r","kv_engine_id":"e"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := enrollerOf(t, quick, nil)
			spec, err := ParseSpec([]byte(`{"url":"http://w:1",` + tt.spec[1:]))
			if tt.spec == "{}" {
				spec, err = NewSpec("http://w:1"), nil
			}
			require.NoError(t, err)
			w := add(t, e.registry, spec)
			now := patched(t, e, w.ID(), `{"labels":`+tt.labels+`}`)
			require.Equal(t, w.Model(), now.Model())
			require.Equal(t, w.Model(), now.View().ModelID)
			require.Equal(t, w.spec.Models, now.spec.Models)
			require.Equal(t, [3]string{w.spec.KVConnector, w.spec.KVRole, w.spec.KVEngineID}, [3]string{now.spec.KVConnector, now.spec.KVRole, now.spec.KVEngineID})
			require.Same(t, now, e.registry.Pool(w.Model(), Regular, HTTP).At(0))
			require.EqualValues(t, 1, now.Revision())
		})
	}
}

// workers.md sections 6 and 16: PUT and upsert end with an activation; what probes found before it says nothing of the engine that has just
// been reached. PATCH keeps the counts.
func TestAnActivationBeginsTheCountsAnew(t *testing.T) {
	put := func(e *Enroller, w *Worker) error { return e.Replace(w.ID(), NewSpec(w.URL())) }
	upsert := func(e *Enroller, w *Worker) error { return e.Upsert(context.Background(), NewSpec(w.URL())) }
	patch := func(e *Enroller, w *Worker) error { return e.Update(w.ID(), Patch{}) }
	tests := []struct {
		name   string
		before int // failed probes; 3 make it not_ready, 9 more failed
		change func(*Enroller, *Worker) error
		after  int    // failed probes after the change, the one at once included
		want   Status // then
	}{
		{"PUT of a not_ready worker", 11, put, 2, Ready},
		{"and it goes by the full rule again", 11, put, 3, NotReady},
		{"upsert of a not_ready worker", 11, upsert, 2, Ready},
		{"PUT of a ready worker", 2, put, 2, Ready},
		{"PUT of a failed worker", 12, put, 2, Ready},
		{"PATCH of a ready worker", 2, patch, 1, NotReady},
		{"PATCH of a not_ready worker", 11, patch, 1, Failed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
				defer e.Close()
				e.clients.http1.Transport = roundTrip(pretend)
				h := NewHealthLoop(e.registry, nil)
				h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) { return status(500, ""), nil })
				w := add(t, e.registry, NewSpec("http://up:1"))
				stop := probing(t, h) // the first probe is made at once, the others once a minute
				time.Sleep(time.Duration(tt.before-1)*time.Minute + time.Second)
				require.NoError(t, tt.change(e, w))
				synctest.Wait()
				time.Sleep(time.Duration(tt.after-1)*time.Minute + time.Second)
				synctest.Wait()
				stop()
				now := e.registry.ByID(w.ID())
				require.EqualValues(t, 1, now.Revision())
				require.Equal(t, tt.want, now.Status())
			})
		})
	}
}

// workers.md sections 6 and 16: any state but draining
func TestPatchThatDisablesHealthChecksMakesReady(t *testing.T) {
	for _, from := range []Status{Pending, Ready, NotReady, Failed} {
		t.Run(from.String(), func(t *testing.T) {
			e := enrollerOf(t, quick, nil)
			w := add(t, e.registry, NewSpec("http://w:1"))
			w.SetStatus(from)
			now := patched(t, e, w.ID(), `{"health":{"disable_health_check":true}}`)
			require.Equal(t, Ready, now.Status())
			require.True(t, now.Settings().Health.Disabled)
			require.False(t, patched(t, e, w.ID(), `{"health":{"disable_health_check":false}}`).Settings().Health.Disabled)
		})
	}
}

// workers.md section 7: a patch that turns probing back on puts the worker on the schedule again
func TestPatchTurnsProbingOffAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil)
		defer e.Close()
		h := NewHealthLoop(e.registry, nil)
		probes := make(chan time.Duration, 100)
		begun := time.Now()
		h.clients.http1.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
			probes <- time.Since(begun)
			return status(200, ""), nil
		})
		stop := probing(t, h)
		defer stop()
		w := add(t, e.registry, NewSpec("http://w:1"))
		require.Zero(t, <-probes)
		off, on := Patch{Health: &HealthSpec{DisableHealthCheck: new(true)}}, Patch{Health: &HealthSpec{DisableHealthCheck: new(false)}}
		require.NoError(t, e.Update(w.ID(), off))
		time.Sleep(10 * time.Minute)
		require.Empty(t, probes)
		require.NoError(t, e.Update(w.ID(), on))
		require.Equal(t, 10*time.Minute, <-probes)
		require.Equal(t, 11*time.Minute, <-probes)
	})
}

// workers.md section 16
func TestUpdateOfNobody(t *testing.T) {
	e := enrollerOf(t, quick, nil)
	id := NewID()
	require.EqualError(t, e.Update(id, Patch{}), "Worker "+id.String()+" not found")
	require.EqualError(t, e.Replace(id, NewSpec("http://w:1")), "Worker "+id.String()+" not found")
	w := add(t, e.registry, NewSpec("http://w:1"))
	e.jobs.Close()
	require.ErrorIs(t, e.Update(w.ID(), Patch{}), ErrClosed)
	require.ErrorIs(t, e.Replace(w.ID(), NewSpec("http://w:1")), ErrClosed)
}

// telemetry.md section 7.6: whoever asked was told that the update is accepted; that it failed is in the log, at ERROR.
func TestAnUpdateThatComesTooLateIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		e := NewEnroller(NewRegistry(), DefaultSettings(), quick, slog.New(slog.DiscardHandler), WithJobLog(slog.New(slog.NewTextHandler(&log, nil))))
		defer e.Close()
		w := add(t, e.registry, NewSpec("http://w:1"))
		require.NoError(t, e.Remove(w.ID()))
		synctest.Wait()
		require.True(t, w.Draining())
		require.NoError(t, e.Update(w.ID(), Patch{}))
		time.Sleep(6 * time.Second)
		require.Zero(t, e.registry.Len())
		require.Regexp(t, `level=ERROR msg="a job failed" job=UpdateWorker worker=http://w:1 error="Worker .* not found"`, log.String())
		require.NoError(t, e.RemoveAt(t.Context(), "http://w:1"))
		synctest.Wait()
		require.Contains(t, log.String(), `level=ERROR msg="a job failed" job=RemoveWorker worker=http://w:1 error="Worker http://w:1 not found"`)
	})
}

// workers.md sections 12 and 16: PUT runs the whole addition, under the old id
func TestReplaceRegistersAnew(t *testing.T) {
	engine := startEngine(t, sglang("m"))
	e := enrollerOf(t, quick, nil)
	first := NewSpec(engine.URL)
	first.Labels, first.APIKey, first.Priority = map[string]string{"mine": "1"}, "k1", 7
	w, err := e.Add(t.Context(), first)
	require.NoError(t, err)
	w.SetStatus(NotReady)
	w.Begin()
	defer w.End()
	for path, p := range sglang("other") {
		engine.set(path, p)
	}
	asked := len(engine.requests())
	require.NoError(t, e.Replace(w.ID(), NewSpec(engine.URL+"/")))
	eventually(t, "replaced", func() bool { return e.registry.ByID(w.ID()).Revision() == 1 && !e.jobs.Busy(w.endpoint.Address) })
	now := e.registry.ByID(w.ID())
	require.Greater(t, len(engine.requests()), asked, "the engine was asked")
	require.Equal(t, "other", now.Model())
	require.Equal(t, Ready, now.Status(), "it ends with its activation")
	require.EqualValues(t, 50, now.Spec().Priority, "what is left out takes its default")
	require.Empty(t, now.Bearer())
	require.NotContains(t, now.Spec().Labels, "mine")
	require.EqualValues(t, 1, now.InFlight())
	require.Equal(t, []string{"other"}, e.registry.Models())

	err = e.Replace(w.ID(), NewSpec("http://elsewhere:1"))
	require.EqualError(t, err, "URL mismatch: worker has URL '"+engine.URL+"' but request body has 'http://elsewhere:1'. "+
		"URL changes are not supported via PUT. Use DELETE + POST instead.")
	_, isURL := errors.AsType[*URLError](e.Replace(w.ID(), NewSpec("nope")))
	require.True(t, isURL)
}

// workers.md sections 12 and 16: a replacement is bound to the revision at which it was accepted. Time is the test's own
func TestReplacementsAreBoundToTheirRevision(t *testing.T) {
	tests := []struct {
		name     string
		between  func(e *Enroller, w *Worker) error // after the first PUT was accepted
		revision uint64                             // at the end; 0 is gone
		failure  string                             // of the last job at the address
	}{
		{"another PUT", func(e *Enroller, w *Worker) error { return e.Replace(w.ID(), NewSpec(w.URL())) }, 1, "no longer at revision 0"},
		{"a PATCH and another PUT", func(e *Enroller, w *Worker) error {
			return errors.Join(e.Update(w.ID(), Patch{}), e.Replace(w.ID(), NewSpec(w.URL())))
		}, 2, "no longer at revision 0"},
		{"it is gone before the PUT runs", func(e *Enroller, w *Worker) error { e.registry.Remove(w); return nil }, 0, "no longer at revision 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
				defer e.Close()
				e.clients.http1.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
					time.Sleep(time.Second)
					return pretend(r)
				})
				w := add(t, e.registry, NewSpec("http://up:1"))
				require.NoError(t, e.Replace(w.ID(), NewSpec(w.URL())))
				require.NoError(t, tt.between(e, w))
				time.Sleep(time.Minute)
				synctest.Wait()
				if now := e.registry.ByID(w.ID()); tt.revision > 0 {
					require.EqualValues(t, tt.revision, now.Revision())
					require.Equal(t, Ready, now.Status())
				} else {
					require.Nil(t, now, "it stays deleted")
				}
				s, ok := e.jobs.Status("up:1")
				require.True(t, ok)
				require.Equal(t, "failed", s.Status)
				require.Contains(t, *s.Message, tt.failure)
			})
		})
	}
}

// workers.md sections 12 and 17: PUT was accepted, and DELETE wins
func TestARemovalDoesNotWaitForAReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
		defer e.Close()
		e.clients.http1.Transport = roundTrip(pretend)
		w, other := add(t, e.registry, settling("http://hangs:1", 1)), add(t, e.registry, NewSpec("http://hangs:1@1"))
		require.NoError(t, e.Replace(w.ID(), NewSpec(w.URL())))
		require.NoError(t, e.Replace(other.ID(), NewSpec(other.URL())))
		time.Sleep(10 * time.Second)
		require.NoError(t, e.Remove(w.ID()))
		synctest.Wait()
		s, ok := e.jobs.Status("hangs:1")
		require.True(t, ok)
		require.Equal(t, AddWorker, s.JobType, "the replacement of another worker of the address goes on")
		require.NoError(t, e.Remove(other.ID()))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, e.registry.Len())
		require.Empty(t, e.adding)
	})
}
