package engine

import (
	"fmt"
	"sync"
	"time"
)

// tokenRate turns the count of tokens into tokens per second, over the time between two questions of at least a second.
type tokenRate struct {
	mu     sync.Mutex
	at     time.Time
	tokens int64
	rate   float64
}

func (r *tokenRate) read(tokens int64, now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if dt := now.Sub(r.at); dt >= time.Second {
		if !r.at.IsZero() {
			r.rate = float64(tokens-r.tokens) / dt.Seconds()
		}
		r.at, r.tokens = now, tokens
	}
	return r.rate
}

// load is what an engine reports of itself. Nothing ever waits here: what is in flight is running.
type load struct {
	running, used int64
	usage, rate   float64
}

func (e *Engine) load() load {
	c := &e.counters
	used := min(c.held.Load(), kvTokens)
	return load{
		running: c.inFlight.Load(), used: used, usage: float64(used) / kvTokens,
		rate: e.rate.read(c.tokens.Load(), time.Now()),
	}
}

// loads is SGLang's /v1/loads. The query (include=...) changes nothing.
func (e *Engine) loads(c *conn) error {
	l := e.load()
	rank := object{
		"dp_rank": 0, "num_running_reqs": l.running, "num_waiting_reqs": 0, "num_total_reqs": l.running,
		"num_waiting_uncached_tokens": 0, "num_used_tokens": l.used, "max_total_num_tokens": kvTokens,
		"token_usage": l.usage, "gen_throughput": l.rate, "cache_hit_rate": 0.0, "utilization": 0.0,
		"max_running_requests": maxRunning,
		"queues":               object{"waiting": 0, "grammar": 0, "paused": 0, "retracted": 0},
	}
	return c.sendValue(object{
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "version": sglangVersion, "dp_rank_count": 1,
		"loads": []object{rank},
	})
}

// getLoad is SGLang's older /get_load.
func (e *Engine) getLoad(c *conn) error {
	l := e.load()
	return c.sendValue([]object{{"dp_rank": 0, "num_reqs": l.running, "num_waiting_reqs": 0, "num_tokens": l.used}})
}

// metrics is /metrics, in the names of the engine.
func (e *Engine) metrics(c *conn) error {
	m := exposition{b: c.text[:0]}
	if e.cfg.Engine == VLLM {
		e.vllmMetrics(&m)
	} else {
		e.sglangMetrics(&m)
	}
	return c.send(200, textType, m.b)
}

func (e *Engine) vllmMetrics(m *exposition) {
	l, c := e.load(), &e.counters
	m.labels = fmt.Sprintf(`engine="0",model_name="%s"`, e.models[0])
	m.add("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", float64(l.running))
	m.add("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", 0)
	m.add("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", l.usage)
	m.add("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", float64(c.prompt.Load()))
	m.add("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", 0)
	m.add("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", 0)
	m.add("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(c.prompt.Load()))
	m.add("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", float64(c.tokens.Load()))
	m.labels = fmt.Sprintf(`engine="0",finished_reason="length",model_name="%s"`, e.models[0])
	m.add("vllm:request_success_total", "counter", "Count of successfully processed requests.", float64(c.finished.Load()))
}

func (e *Engine) sglangMetrics(m *exposition) {
	l, c := e.load(), &e.counters
	m.labels = fmt.Sprintf(`engine_type="unified",model_name="%s",pp_rank="0",tp_rank="0"`, e.models[0])
	m.add("sglang:num_running_reqs", "gauge", "The number of running requests.", float64(l.running))
	m.add("sglang:num_queue_reqs", "gauge", "The number of requests in the waiting queue.", 0)
	m.add("sglang:num_used_tokens", "gauge", "The number of used tokens.", float64(l.used))
	m.add("sglang:max_total_num_tokens", "gauge", "Maximum total number of tokens in the KV cache pool.", kvTokens)
	m.add("sglang:token_usage", "gauge", "The token usage.", l.usage)
	m.add("sglang:gen_throughput", "gauge", "The generation throughput (token/s).", l.rate)
	m.add("sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", 0)
	m.add("sglang:prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(c.prompt.Load()))
	m.add("sglang:generation_tokens_total", "counter", "Number of generation tokens processed.", float64(c.tokens.Load()))
	m.add("sglang:num_requests_total", "counter", "Number of requests processed.", float64(c.finished.Load()))
}

// exposition writes the Prometheus text format as the engines' own library does: every value is a float.
type exposition struct {
	b      []byte
	labels string
}

func (m *exposition) add(name, kind, help string, value float64) {
	m.b = fmt.Appendf(m.b, "# HELP %s %s\n# TYPE %s %s\n%s{%s} ", name, help, name, kind, name, m.labels)
	if value == float64(int64(value)) {
		m.b = fmt.Appendf(m.b, "%.1f\n", value)
		return
	}
	m.b = fmt.Appendf(m.b, "%g\n", value)
}
