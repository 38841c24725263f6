package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// site is a set of policies over workers http://w1:8000, http://w2:8000 and so on, all of model m1, with a clock that a test moves.
type site struct {
	*Set
	t        testing.TB
	registry *workers.Registry
	workers  []*workers.Worker
	metrics  *telemetry.PolicyMetrics
	said     *records
	now      time.Time
}

func newSite(t testing.TB, policy string, n int, change func(*Settings)) *site {
	t.Helper()
	said, log := newRecords()
	s := &site{
		t: t, registry: workers.NewRegistry(), metrics: telemetry.NewMetrics(telemetry.Options{}).Policies, said: said,
		now: time.Unix(1e9, 0),
	}
	settings := BuiltIn(Shared{Clock: func() time.Time { return s.now }, Metrics: s.metrics, Log: log})
	if change != nil {
		change(&settings)
	}
	var err error
	s.Set, err = NewSet(policy, settings, nil, log)
	require.NoError(t, err)
	t.Cleanup(s.registry.Listen(s.Set))
	for i := range n {
		s.add(fmt.Sprintf("http://w%d:8000", i+1), "m1")
	}
	return s
}

func (s *site) add(url, model string) *workers.Worker {
	s.t.Helper()
	w := worker(s.t, url, map[string]string{"model_id": model})
	require.NoError(s.t, s.registry.Add(w))
	s.workers = append(s.workers, w)
	return w
}

// browser is a client that has request headers and nothing else.
type browser struct {
	pipeline.Client
	headers map[string]string
}

func (b *browser) Header(name string) string { return b.headers[name] }

// request is a request for m1 with headers, names and values in turn. Its routing key is the usual header's.
func request(headers ...string) *pipeline.Exchange {
	b := &browser{headers: map[string]string{}}
	for i := 0; i < len(headers); i += 2 {
		b.headers[headers[i]] = headers[i+1]
	}
	x := &pipeline.Exchange{Client: b, Model: "m1"}
	if key := b.headers["X-Smg-Routing-Key"]; validKey(key) {
		x.Key = pipeline.RoutingKey{Value: key, Source: pipeline.HeaderKey}
	}
	return x
}

// keyed is a request with a routing-key header.
func keyed(key string) *pipeline.Exchange { return request("X-Smg-Routing-Key", key) }

// ridden is a request whose body has a rid that stands for a key.
func ridden(rid string, headers ...string) *pipeline.Exchange {
	x := request(headers...)
	x.Key = pipeline.RoutingKey{Value: rid, Source: pipeline.RIDKey, Sent: x.Key.Value}
	return x
}

// pick is who is chosen of those that are available: "w1" for http://w1:8000; "none".
func (s *site) pick(x *pipeline.Exchange) string {
	s.t.Helper()
	x.Pool = s.registry.Pool(x.Model, workers.Regular, workers.HTTP)
	x.Candidates = x.Pool.Keep(nil, (*workers.Worker).Available)
	return s.choose(x, x.Candidates)
}

func (s *site) choose(x *pipeline.Exchange, among workers.List) string {
	s.t.Helper()
	i := s.For(x.Model).Select(x, among)
	if i < 0 {
		return "none"
	}
	require.Less(s.t, i, among.Len())
	return label(among.At(i))
}

// label is the w1 of http://w1:8000.
func label(w *workers.Worker) string {
	var name string
	_, _ = fmt.Sscanf(w.URL(), "http://%2s", &name)
	return name
}

// down takes workers out, by their number from 1; up brings them back.
func (s *site) down(numbers ...int) {
	for _, n := range numbers {
		s.workers[n-1].SetStatus(workers.NotReady)
	}
}

func (s *site) up(numbers ...int) {
	for _, n := range numbers {
		s.workers[n-1].SetStatus(workers.Ready)
	}
}

// named is a worker by its label.
func (s *site) named(name string) *workers.Worker {
	for _, w := range s.workers {
		if label(w) == name {
			return w
		}
	}
	s.t.Fatalf("no worker %s", name)
	return nil
}

// branches are the counters that are not 0.
func branches(counters map[string]prometheus.Counter) map[string]int {
	all := map[string]int{}
	for name, c := range counters {
		if n := int(testutil.ToFloat64(c)); n > 0 {
			all[name] = n
		}
	}
	return all
}

// lines are the records with a message. A field hides the record's own of the same name, such as level.
func (s *site) lines(message string) (all []map[string]any) {
	s.said.mu.Lock()
	defer s.said.mu.Unlock()
	for line := range bytes.Lines(s.said.buf.Bytes()) {
		record := map[string]any{}
		require.NoError(s.t, json.Unmarshal(line, &record))
		if record["msg"] == message {
			all = append(all, record)
		}
	}
	return all
}
