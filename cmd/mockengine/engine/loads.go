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

// load is what an engine reports of itself. Without a model nothing ever waits: what is in flight is running.
func (e *Engine) load() (Load, Totals) {
	if e.driver != nil {
		return e.driver.load()
	}
	c := &e.counters
	used := min(int(c.held.Load()), kvTokens)
	return Load{
		Running: int(c.inFlight.Load()), Used: used, Capacity: kvTokens, Usage: float64(used) / kvTokens,
		Throughput: e.rate.read(c.tokens.Load(), time.Now()), RunningLimit: maxRunning,
	}, Totals{Prompt: c.prompt.Load(), Generated: c.tokens.Load()}
}

// loads is SGLang's /v1/loads. The query (include=...) changes nothing.
func (e *Engine) loads(c *conn) error {
	l, _ := e.load()
	rank := object{
		"dp_rank": 0, "num_running_reqs": l.Running, "num_waiting_reqs": l.Waiting, "num_total_reqs": l.Running + l.Waiting,
		"num_waiting_uncached_tokens": l.WaitingTokens, "num_used_tokens": l.Used, "max_total_num_tokens": l.Capacity,
		"token_usage": l.Usage, "gen_throughput": l.Throughput, "cache_hit_rate": l.HitRate, "utilization": e.utilization(l),
		"max_running_requests": l.RunningLimit,
		"queues":               object{"waiting": l.Waiting, "grammar": 0, "paused": 0, "retracted": 0},
	}
	return c.sendValue(object{
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano), "version": sglangVersion, "dp_rank_count": 1,
		"loads": []object{rank},
	})
}

// utilization is the share of the requests that it may run; without a model it says nothing.
func (e *Engine) utilization(l Load) float64 {
	if e.driver == nil {
		return 0
	}
	return float64(l.Running) / float64(l.RunningLimit)
}

// getLoad is SGLang's older /get_load.
func (e *Engine) getLoad(c *conn) error {
	l, _ := e.load()
	return c.sendValue([]object{{"dp_rank": 0, "num_reqs": l.Running + l.Waiting, "num_waiting_reqs": l.Waiting, "num_tokens": l.Used}})
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
	l, done := e.load()
	m.labels = fmt.Sprintf(`engine="0",model_name="%s"`, e.models[0])
	m.add("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", float64(l.Running))
	m.add("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", float64(l.Waiting))
	m.add("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", l.Usage)
	m.add("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", float64(done.Prompt))
	m.add("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", float64(done.Cached))
	m.add("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", 0)
	m.add("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(done.Prompt))
	m.add("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", float64(done.Generated))
	page := e.pageSize()
	m.labels = fmt.Sprintf(`engine="0",block_size="%d",num_gpu_blocks="%d",enable_prefix_caching="True"`, page, l.Capacity/page)
	m.add("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", 1)
	m.labels = fmt.Sprintf(`engine="0",finished_reason="length",model_name="%s"`, e.models[0])
	m.add("vllm:request_success_total", "counter", "Count of successfully processed requests.", float64(e.counters.finished.Load()))
}

// pageSize is how many tokens are a page of the cache.
func (e *Engine) pageSize() int {
	if e.driver == nil {
		return 16
	}
	return e.driver.model.cfg.PageSize
}

func (e *Engine) sglangMetrics(m *exposition) {
	l, done := e.load()
	m.labels = fmt.Sprintf(`engine_type="unified",model_name="%s",pp_rank="0",tp_rank="0"`, e.models[0])
	m.add("sglang:num_running_reqs", "gauge", "The number of running requests.", float64(l.Running))
	m.add("sglang:num_queue_reqs", "gauge", "The number of requests in the waiting queue.", float64(l.Waiting))
	m.add("sglang:num_used_tokens", "gauge", "The number of used tokens.", float64(l.Used))
	m.add("sglang:max_total_num_tokens", "gauge", "Maximum total number of tokens in the KV cache pool.", float64(l.Capacity))
	m.add("sglang:token_usage", "gauge", "The token usage.", l.Usage)
	m.add("sglang:gen_throughput", "gauge", "The generation throughput (token/s).", l.Throughput)
	m.add("sglang:cache_hit_rate", "gauge", "The prefix cache hit rate.", l.HitRate)
	m.add("sglang:prompt_tokens_total", "counter", "Number of prefill tokens processed.", float64(done.Prompt))
	m.add("sglang:generation_tokens_total", "counter", "Number of generation tokens processed.", float64(done.Generated))
	m.add("sglang:num_requests_total", "counter", "Number of requests processed.", float64(e.counters.finished.Load()))
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
