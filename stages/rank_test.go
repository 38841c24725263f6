package stages

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// workers.md section 5, http-dataplane.md section 3.4: the rank is in the body, and everything else is as the client wrote it
func TestAppendRanked(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"it comes first", `{"model":"m","x":12345678901234567890}`, `{"data_parallel_rank":3,"model":"m","x":12345678901234567890}`},
		{"an empty object", `{}`, `{"data_parallel_rank":3}`},
		{"white space stays where it is", " {\n \"a\" : 1.0 }\n", " {\"data_parallel_rank\":3,\n \"a\" : 1.0 }\n"},
		{"an empty object with white space", `{ }`, `{"data_parallel_rank":3 }`},
		{"one that the client wrote is replaced", `{"a":1,"data_parallel_rank":17 ,"b":2}`, `{"a":1,"data_parallel_rank":3 ,"b":2}`},
		{"null as well", `{"data_parallel_rank":null}`, `{"data_parallel_rank":3}`},
		{"of several the last, which counts", `{"data_parallel_rank":1,"data_parallel_rank":[2]}`, `{"data_parallel_rank":1,"data_parallel_rank":3}`},
		{"one further inside is not meant", `{"a":{"data_parallel_rank":1}}`, `{"data_parallel_rank":3,"a":{"data_parallel_rank":1}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f fieldSet
			require.Nil(t, scanObject([]byte(tt.body), &f))
			require.Equal(t, tt.want, string(appendRanked(nil, []byte(tt.body), &f, 3)))
		})
	}
}

func FuzzAppendRanked(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"data_parallel_rank":7}`, " {\t}", `{"a":{"b":[1,2]},"data_parallel_rank":"x"}`, `{"data\u005fparallel_rank":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var fields fieldSet
		if scanObject(body, &fields) != nil {
			return
		}
		got := appendRanked(nil, body, &fields, 5)
		var before, after map[string]json.RawMessage
		if json.Unmarshal(body, &before) != nil {
			return // nested deeper than that decoder goes
		}
		require.NoError(t, json.Unmarshal(got, &after), "%q", got)
		require.Equal(t, "5", string(after["data_parallel_rank"]))
		delete(after, "data_parallel_rank")
		delete(before, "data_parallel_rank")
		require.Equal(t, before, after)
	})
}

// ranked is a rig of one engine whose ranks 0 to n-1 are registered.
func ranked(t *testing.T, n int, configure func(*rigging)) *rig {
	r := newRig(t, 0, configure)
	e := engine.Start(t, r.settings.engine)
	r.engines = append(r.engines, e)
	for rank := range n {
		w := newWorker(t, e.URL+"@"+strconv.Itoa(rank), "m1", r.settings.worker)
		r.register(t, w, "ready")
	}
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) { return c.After("dispatch", Rank()) })
	return r
}

func sentTo(e *engine.Running) (found []engine.Request) {
	for _, q := range e.Requests() {
		if q.Method == "POST" {
			found = append(found, q)
		}
	}
	return found
}

// ranksSent are the ranks in the bodies that an engine got.
func ranksSent(t *testing.T, e *engine.Running) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for _, q := range sentTo(e) {
		require.NotContains(t, q.Path, "@", "a rank never leaves the gateway by its URL")
		var body struct {
			Rank *int `json:"data_parallel_rank"`
		}
		require.NoError(t, json.Unmarshal([]byte(q.Body), &body))
		require.NotNil(t, body.Rank, string(q.Body))
		counts[*body.Rank]++
	}
	return counts
}

// workers.md section 5, cases.md C30
func TestEachRequestCarriesTheRankOfItsWorker(t *testing.T) {
	r := ranked(t, 2, nil)
	for range 20 {
		require.Equal(t, 200, r.ask(chat()).status)
	}
	require.Equal(t, map[int]int{0: 10, 1: 10}, ranksSent(t, r.engines[0]))
	require.True(t, r.registry.Ranked())
}

// http-dataplane.md section 3.4: an attempt for another rank begins with the client's body
func TestEachAttemptCarriesItsOwnRank(t *testing.T) {
	r := ranked(t, 3, nil)
	r.engines[0].SetFaults(engine.Fault{Status: 503, Count: 2})
	require.Equal(t, 200, r.ask(chat()).status)
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, ranksSent(t, r.engines[0]))
	lengths := map[int]bool{}
	for _, q := range sentTo(r.engines[0]) {
		require.Equal(t, 1, strings.Count(string(q.Body), "data_parallel_rank"))
		lengths[len(q.Body)] = true
	}
	require.Len(t, lengths, 1)
}

// http-dataplane.md section 3.4
func TestABodyWithoutRoomForARankIsRefused(t *testing.T) {
	x := &pipeline.Exchange{}
	w, err := workers.New(workers.NewSpec("http://w:1@0"), workers.DefaultSettings())
	require.NoError(t, err)
	x.Legs.Add(w, workers.Regular)
	for _, body := range []string{"", "[1]", "text"} {
		x.Body.Bytes = []byte(body)
		err := Rank().Handle(x, func(*pipeline.Exchange) error { t.Fatal("sent"); return nil })
		e := pipeline.AsError(err)
		require.Equal(t, 400, e.Status)
		require.Equal(t, "request_preparation_failed", e.Code)
	}
}

// http-dataplane.md section 4: a body that has to be edited is read
func TestBodiesForRanksAreRead(t *testing.T) {
	r := ranked(t, 2, func(s *rigging) { s.buffering.Retries = false })
	c := r.ask(chat())
	require.Equal(t, 200, c.status)
	require.Equal(t, 1, r.count(t, "router_request_body_path_total{buffered worker_mutates_body}"))
	ranksSent(t, r.engines[0])
}
