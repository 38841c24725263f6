package replay

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/policy"
	"github.com/smg-go/smg/workers"
)

// epoch is the moment at which every run begins.
var epoch = time.Unix(1_700_000_000, 0)

// Defaults are the settings of policies in a gateway without flags: the built-in ones, but for these.
func Defaults() policy.Settings {
	s := policy.BuiltIn(policy.Shared{})
	s.CacheThreshold, s.BalanceAbs, s.BalanceRel, s.BucketRel = 0.3, 64, 1.5, 1.5
	s.EvictionInterval, s.MaxTreeSize = time.Minute, 1<<26
	return s
}

// gateways are the real thing: registries of workers, and policies that choose among them, without anything around them.
type gateways struct {
	run    *run
	all    []*gateway
	reads  bool      // the policy reads prompts, or at least how long they are
	polls  bool      // it reads load reports
	made   tokenizer // makes the tokens of prompts
	tokens []uint32  // scratch
	seen   []Segment // scratch
}

// gateway has a view of its own of the fleet.
type gateway struct {
	set     *policy.Set
	policy  policy.Policy
	pool    workers.List
	workers []*workers.Worker
}

const modelName = "model"

// WholeCacheAware is the name of cache_aware as other gateways have it: a request counts whole until the next report of its worker, what
// that holds of the prompt included. least_work is held to bars beside this one.
const WholeCacheAware = "cache_aware_whole"

func newGateways(r *run, name string, settings policy.Settings) (*gateways, error) {
	settings.Chance = policy.NewChance(r.seed + 1)
	if name == WholeCacheAware {
		name, settings.CountHeld = "cache_aware", true
	}
	g := &gateways{run: r}
	for range max(1, r.gateways) {
		one, err := newGateway(r, name, settings)
		if err != nil {
			return nil, err
		}
		g.all = append(g.all, one)
	}
	wants := g.all[0].policy.Wants()
	g.reads = wants&(pipeline.WantText|pipeline.WantTextIfRead|pipeline.WantTokens) != 0
	g.polls = wants&pipeline.WantLoads != 0
	return g, nil
}

func newGateway(r *run, name string, s policy.Settings) (*gateway, error) {
	quiet := slog.New(slog.DiscardHandler)
	s.Clock, s.Log = func() time.Time { return epoch.Add(r.now) }, quiet
	set, err := policy.NewSet(name, s, nil, quiet)
	if err != nil {
		return nil, err
	}
	g := &gateway{set: set, policy: set.Default()}
	registry := workers.NewRegistry()
	registry.Follow(set)
	for i := range r.size {
		w, err := newWorker(i, r.config(i))
		if err != nil {
			return nil, err
		}
		if err := registry.Add(w); err != nil {
			return nil, err
		}
		g.workers = append(g.workers, w)
	}
	g.pool = registry.Pool(modelName, workers.Regular, workers.HTTP)
	return g, nil
}

// newWorker is engine i as a gateway knows it once it was registered.
func newWorker(i int, c engine.ModelConfig) (*workers.Worker, error) {
	spec := workers.NewSpec(fmt.Sprintf("http://engine-%d:8000", i))
	spec.Labels = map[string]string{
		"model_id": modelName, "max_running_requests": fmt.Sprint(c.MaxRunning), "max_total_num_tokens": fmt.Sprint(c.KVTokens),
	}
	w, err := workers.New(spec, workers.DefaultSettings())
	if err != nil {
		return nil, err
	}
	w.SetStatus(workers.Ready)
	return w, nil
}

// choose does what the stages from "candidates" to "in_flight" do. The gateway that a request comes to depends on the request alone.
func (g *gateways) choose(c *call) int {
	c.gateway = int(mix(uint64(c.number)+g.run.seed<<32) % uint64(len(g.all)))
	one := g.all[c.gateway]
	c.x = &pipeline.Exchange{Client: client{key: c.req.Key}, Model: modelName, Served: true, Arrived: epoch.Add(g.run.now)}
	c.x.Body.Stream, c.x.Prompt.Tokens = true, g.prompt(c.req)
	if c.req.Key != "" {
		c.x.Key = pipeline.RoutingKey{Value: c.req.Key, Source: pipeline.HeaderKey}
	}
	c.x.BeginAttempt()
	c.x.Pool, c.x.Candidates = one.pool, one.pool
	place := max(0, one.policy.Select(c.x, one.pool)) // nobody is left out, so -1 is only a policy's cap: a client would come again
	c.x.Prompt.Tokens = nil                           // the buffer is the next request's
	w := one.pool.At(place)
	c.leg = c.x.Legs.Add(w, workers.Regular)
	c.leg.Policy = one.policy.Name()
	c.leg.Begin()
	return place
}

// prompt is the tokens of a request as policies see them, valid until the next one's; nil if nobody reads them.
func (g *gateways) prompt(q *Request) []uint32 {
	if !g.reads {
		return nil
	}
	seen := q.Prompt
	if share := g.run.tokenError; share > 0 {
		g.seen = misjudged(g.seen[:0], q.Prompt, share, g.run.w.alike)
		seen = g.seen
	}
	g.tokens = g.made.append(g.tokens[:0], seen)
	return g.tokens
}

func (g *gateways) first(c *call) {
	c.leg.Streamed, c.leg.Status = true, 200
	c.x.TellHead(c.leg, 200)
	c.x.TellFirstByte(c.leg)
}

func (g *gateways) done(c *call) {
	c.leg.Outcome = pipeline.Answered
	c.leg.End()
	if booked, ok := g.all[c.gateway].policy.(policy.Booked); ok {
		booked.Ended(c.x)
	}
	c.x, c.leg = nil, nil
}

func (g *gateways) poll() {
	if g.run.every <= 0 || !g.polls {
		return
	}
	at := epoch.Add(g.run.now)
	for i, m := range g.run.engines {
		l := m.Load()
		rank := workers.RankLoad{
			Running: int64(l.Running), Waiting: int64(l.Waiting), Total: int64(l.Running + l.Waiting),
			WaitingTokens: int64(l.WaitingTokens), UsedTokens: int64(l.Used), Capacity: int64(l.Capacity), Usage: l.Usage,
			Throughput: l.Throughput, HitRate: l.HitRate, RunningLimit: int64(l.RunningLimit), Sent: everything,
		}
		for _, one := range g.all {
			one.workers[i].SetReport(workers.NewReport(at, at, "", []workers.RankLoad{rank}))
		}
	}
}

// everything is a report that leaves out only the utilization.
const everything = workers.SentRunning | workers.SentWaiting | workers.SentTotal | workers.SentWaitingTokens |
	workers.SentUsedTokens | workers.SentCapacity | workers.SentUsage | workers.SentThroughput | workers.SentHitRate |
	workers.SentRunningLimit

func (g *gateways) upkeep() {
	for _, one := range g.all {
		one.set.Tick()
	}
}

func (g *gateways) quiet() error {
	for _, one := range g.all {
		for _, w := range one.workers {
			if w.InFlight() != 0 {
				return errBooks
			}
		}
	}
	return nil
}

// client is who sends a simulated request: it has a routing key, and nothing else to say.
type client struct {
	pipeline.Client
	key string
}

func (c client) Method() string            { return "POST" }
func (c client) Path() string              { return "/v1/chat/completions" }
func (c client) Query() string             { return "" }
func (c client) Protocol() string          { return "HTTP/1.1" }
func (c client) Peer() string              { return "" }
func (c client) TLS() *tls.ConnectionState { return nil }
func (c client) ContentLength() int64      { return -1 }
func (c client) Gone() bool                { return false }

func (c client) Header(name string) string {
	if name == "X-Smg-Routing-Key" {
		return c.key
	}
	return ""
}

func (c client) Headers(yield func(name, value string) bool) {
	if c.key != "" {
		yield("X-Smg-Routing-Key", c.key)
	}
}
