package workers

import (
	"math"
	"strconv"
	"time"
)

// parseVLLM reads the page of metrics of a vLLM engine as one rank. ok is false if it does not say how full the KV cache is: a
// worker of unknown pressure is not one without any. was are the counters of an earlier page, nil for the first one.
func parseVLLM(page []byte, at time.Time, was *counters) (l RankLoad, now counters, ok bool) {
	var v vllmPage
	samples(page, v.read)
	usage := &v.usage
	if usage.n == 0 {
		usage = &v.gpuUsage
	}
	now = counters{
		at: at, generated: v.generated.sum, counted: v.generated.n > 0,
		hits: v.hits.sum, queries: v.queries.sum, cached: v.hits.n > 0 && v.queries.n > 0,
	}
	if l.Usage, ok = usage.mean(); !ok {
		return RankLoad{}, now, false
	}
	l.Sent |= SentUsage
	l.take(SentRunning, &l.Running, &v.running)
	l.take(SentWaiting, &l.Waiting, &v.waiting)
	l.Total = l.Running + l.Waiting
	if l.take(SentCapacity, &l.Capacity, &v.capacity); l.Capacity > 0 {
		l.UsedTokens = int64(math.Round(l.Usage * float64(l.Capacity)))
	}
	l.share(SentHitRate, &l.HitRate, &v.hitRate)
	now.rates(was, &l)
	return l, now, true
}

type vllmPage struct {
	usage, gpuUsage, running, waiting tally
	generated, hits, queries, hitRate tally
	capacity                          tally
}

func (v *vllmPage) read(s sample) bool {
	switch string(s.name) {
	case "vllm:kv_cache_usage_perc": // a ratio, whatever its name says
		v.usage.add(s.value)
	case "vllm:gpu_cache_usage_perc":
		v.gpuUsage.add(s.value)
	case "vllm:num_requests_running":
		v.running.add(s.value)
	case "vllm:num_requests_waiting":
		v.waiting.add(s.value)
	case "vllm:generation_tokens_total":
		v.generated.add(s.value)
	case "vllm:prefix_cache_hits_total":
		v.hits.add(s.value)
	case "vllm:prefix_cache_queries_total":
		v.queries.add(s.value)
	case "vllm:gpu_prefix_cache_hit_rate":
		v.hitRate.add(s.value)
	case "vllm:cache_config_info":
		v.size(s)
	}
	return true
}

// size reads the KV cache's size in tokens from the labels of its configuration, one line for each engine.
func (v *vllmPage) size(s sample) {
	blocks, err := strconv.ParseInt(s.label("num_gpu_blocks"), 10, 32)
	if err != nil || blocks <= 0 {
		return
	}
	block, err := strconv.ParseInt(s.label("block_size"), 10, 32)
	if err != nil || block <= 0 {
		return
	}
	v.capacity.add(float64(blocks * block))
}

// take takes over a count, if there is one. One of which a part is missing is none: the rest may be what an idle engine has.
func (l *RankLoad) take(field Fields, to *int64, from *tally) {
	n, ok := from.count()
	switch {
	case ok && !from.bad:
		*to = n
		l.Sent |= field
	case from.bad || from.n > 0:
		l.Ignored |= field
	}
}

// share takes over a ratio, if there is one.
func (l *RankLoad) share(field Fields, to *float64, from *tally) {
	f, ok := from.mean()
	switch {
	case ok:
		*to = f
		l.Sent |= field
	case from.bad || from.n > 0:
		l.Ignored |= field
	}
}

// parseSGLang reads the page of metrics of an SGLang engine as one rank; ok is false if it does not say how full the KV cache is.
// The names begin with sglang: or, in some builds, with sglang_.
func parseSGLang(page []byte) (l RankLoad, ok bool) {
	var colon, underscore sglangPage
	samples(page, func(s sample) bool {
		const prefix = len("sglang:")
		if len(s.name) <= prefix {
			return true
		}
		switch string(s.name[:prefix]) {
		case "sglang:":
			colon.read(string(s.name[prefix:]), s.value)
		case "sglang_":
			underscore.read(string(s.name[prefix:]), s.value)
		}
		return true
	})
	if colon.usage.n > 0 {
		return colon.rank()
	}
	return underscore.rank()
}

type sglangPage struct {
	usage, running, waiting, throughput, hitRate, utilization, used, capacity, limit tally
}

func (p *sglangPage) read(name string, value float64) {
	switch name {
	case "token_usage":
		p.usage.add(value)
	case "num_running_reqs":
		p.running.add(value)
	case "num_queue_reqs":
		p.waiting.add(value)
	case "gen_throughput":
		p.throughput.add(value)
	case "cache_hit_rate":
		p.hitRate.add(value)
	case "utilization":
		p.utilization.add(value)
	case "num_used_tokens":
		p.used.add(value)
	case "max_total_num_tokens":
		p.capacity.add(value)
	case "max_running_requests":
		p.limit.add(value)
	}
}

func (p *sglangPage) rank() (l RankLoad, ok bool) {
	if l.Usage, ok = p.usage.mean(); !ok {
		return RankLoad{}, false
	}
	l.Sent |= SentUsage
	l.take(SentRunning, &l.Running, &p.running)
	l.take(SentWaiting, &l.Waiting, &p.waiting)
	l.Total = l.Running + l.Waiting
	l.take(SentUsedTokens, &l.UsedTokens, &p.used)
	l.take(SentCapacity, &l.Capacity, &p.capacity)
	l.take(SentRunningLimit, &l.RunningLimit, &p.limit)
	if t := p.throughput; t.n > 0 && t.sum <= maxThroughput {
		l.Throughput = max(0, t.sum) // over the ranks, as the queue is
		l.Sent |= SentThroughput
	} else if t.n > 0 || t.bad {
		l.Ignored |= SentThroughput
	}
	l.share(SentHitRate, &l.HitRate, &p.hitRate)
	l.share(SentUtilization, &l.Utilization, &p.utilization)
	return l, true
}
