package workers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func vllm(page string) (l RankLoad, ok bool) {
	l, _, ok = parseVLLM([]byte(page), time.Time{}, nil)
	return l, ok
}

func sgl(page string) (l RankLoad, ok bool) { return parseSGLang([]byte(page)) }

// load-signals.md, section 3.4
func TestPagesOfMetricsAreReadAsOneRank(t *testing.T) {
	tests := []struct {
		name  string
		parse func(string) (RankLoad, bool)
		page  string
		ok    bool
		want  RankLoad
	}{
		{
			"vLLM: counts are summed over engines, ratios averaged", vllm,
			"vllm:num_requests_waiting{engine=\"0\",model_name=\"a b\"} 3.0\nvllm:num_requests_waiting{engine=\"1\",model_name=\"a b\"} 4.0\n" +
				"vllm:kv_cache_usage_perc{engine=\"0\"} 0.2\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.6\n",
			true,
			RankLoad{Waiting: 7, Total: 7, Usage: 0.4, Sent: SentUsage | SentWaiting},
		},
		{"vLLM: no gauge of the cache is no report", vllm, "vllm:num_requests_waiting 0\nvllm:num_requests_running 0\n", false, RankLoad{}},
		{"vLLM: an unreadable gauge of the cache is none", vllm, "vllm:kv_cache_usage_perc NaN\nvllm:kv_cache_usage_perc +Inf\nvllm:kv_cache_usage_perc x\n", false, RankLoad{}},
		{"vLLM: a percentage is no ratio", vllm, "vllm:kv_cache_usage_perc 57\n", false, RankLoad{}},
		{"vLLM: the older gauge", vllm, "vllm:gpu_cache_usage_perc 0.5\n", true, RankLoad{Usage: 0.5, Sent: SentUsage}},
		{"vLLM: the newer gauge wins", vllm, "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n", true, RankLoad{Usage: 0.25, Sent: SentUsage}},
		{"vLLM: the older hit rate", vllm, "vllm:kv_cache_usage_perc 0\nvllm:gpu_prefix_cache_hit_rate 0.75\n", true, RankLoad{HitRate: 0.75, Sent: SentUsage | SentHitRate}},
		{
			"vLLM: names that begin alike are others", vllm,
			"vllm:kv_cache_usage_perc 0\nvllm:num_requests_waiting_by_reason{reason=\"capacity\"} 9\nvllm:num_requests_running_x 9\n",
			true,
			RankLoad{Sent: SentUsage},
		},
		{
			"vLLM: the cache's size is in the labels", vllm,
			"vllm:kv_cache_usage_perc 0.5\nvllm:cache_config_info{a=\"}\",block_size=\"16\",hash_block_size=\"None\",num_gpu_blocks=\"100\"} 1.0\n",
			true,
			RankLoad{Usage: 0.5, Capacity: 1600, UsedTokens: 800, Sent: SentUsage | SentCapacity},
		},
		{
			"vLLM: a size that is none is left out", vllm, "vllm:kv_cache_usage_perc 0.5\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1.0\n",
			true,
			RankLoad{Usage: 0.5, Sent: SentUsage},
		},
		{
			"vLLM: negative and huge counts", vllm, "vllm:kv_cache_usage_perc 0\nvllm:num_requests_waiting -4\nvllm:num_requests_running 1e300\n",
			true,
			RankLoad{Sent: SentUsage | SentWaiting, Ignored: SentRunning},
		},
		{
			"vLLM: of a sum that lacks a part nothing is known", vllm,
			"vllm:kv_cache_usage_perc 0\nvllm:num_requests_waiting{e=\"0\"} 0\nvllm:num_requests_waiting{e=\"1\"} NaN\nvllm:num_requests_running x\n",
			true,
			RankLoad{Sent: SentUsage, Ignored: SentWaiting | SentRunning},
		},
		{"SGLang with an underscore", sgl, "sglang_token_usage 0.3\nsglang_num_queue_reqs 2\n", true, RankLoad{Usage: 0.3, Waiting: 2, Total: 2, Sent: SentUsage | SentWaiting}},
		{
			"SGLang: of two prefixes the one that has the gauge counts", sgl, "sglang:num_queue_reqs 9\nsglang_token_usage 0.3\nsglang_num_queue_reqs 2\n",
			true,
			RankLoad{Usage: 0.3, Waiting: 2, Total: 2, Sent: SentUsage | SentWaiting},
		},
		{
			"SGLang: the throughput of ranks is summed, as their queues are", sgl,
			"sglang:token_usage{r=\"0\"} 0.2\nsglang:token_usage{r=\"1\"} 0.4\nsglang:gen_throughput{r=\"0\"} 100\nsglang:gen_throughput{r=\"1\"} 200\n" +
				"sglang:num_running_reqs{r=\"0\"} 1\nsglang:num_running_reqs{r=\"1\"} 2\nsglang:cache_hit_rate{r=\"0\"} 0.5\nsglang:utilization 0.5\n" +
				"sglang:num_used_tokens 10\nsglang:max_total_num_tokens 100\nsglang:max_running_requests 8\n",
			true,
			RankLoad{
				Usage: 0.30000000000000004, Running: 3, Total: 3, Throughput: 300, HitRate: 0.5, Utilization: 0.5, UsedTokens: 10, Capacity: 100, RunningLimit: 8,
				Sent: SentUsage | SentRunning | SentThroughput | SentHitRate | SentUtilization | SentUsedTokens | SentCapacity | SentRunningLimit,
			},
		},
		{"SGLang: no gauge of the cache is no report", sgl, "sglang:num_queue_reqs 2\n", false, RankLoad{}},
		{"SGLang: no engine generates so much", sgl, "sglang:token_usage 0\nsglang:gen_throughput 1e300\n", true, RankLoad{Sent: SentUsage, Ignored: SentThroughput}},
		{"SGLang: a share that is none", sgl, "sglang:token_usage 0\nsglang:cache_hit_rate 57\n", true, RankLoad{Sent: SentUsage, Ignored: SentHitRate}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.parse(tt.page)
			require.Equal(t, tt.ok, ok)
			require.Equal(t, tt.want, got)
		})
	}
}

// load-signals.md, section 3.4: the text format
func TestLinesOfMetrics(t *testing.T) {
	tests := []struct{ line, want string }{
		{`x{a="}"} 5 1700000000`, `x [a="}"] 5`},
		{`x 5`, `x [] 5`},
		{`  x	5	17`, `x [] 5`},
		{`x{} 5`, `x [] 5`},
		{`x {a="b"} 5`, `x [a="b"] 5`},
		{`x{a="b c",d="\"} 7"} 5.5e0`, `x [a="b c",d="\"} 7"] 5.5`},
		{`x{a="b\\"} 5`, `x [a="b\\"] 5`},
		{`# HELP x 5`, ``},
		{``, ``},
		{`x`, ``},
		{`x NaN`, `x [] NaN`},
		{`x +Inf`, `x [] NaN`},
		{`x five`, `x [] NaN`},
		{`x{a="b} 5`, ``},
		{`x{a="b"}`, ``},
		{`{a="b"} 5`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			got := ""
			samples([]byte(tt.line+"\n"), func(s sample) bool {
				got = fmt.Sprintf("%s [%s] %v", s.name, s.labels, s.value)
				return true
			})
			require.Equal(t, tt.want, got)
		})
	}
}

// load-signals.md, section 3.4: rates are found between two pages
func TestRatesOfVLLMAreFoundBetweenTwoPages(t *testing.T) {
	page := func(generated, hits, queries int) []byte {
		return fmt.Appendf(nil, "vllm:kv_cache_usage_perc 0\nvllm:generation_tokens_total{e=\"0\"} %d\nvllm:generation_tokens_total{e=\"1\"} 1\n"+
			"vllm:prefix_cache_hits_total %d\nvllm:prefix_cache_queries_total %d\nvllm:generation_tokens_created 1.7e+09\n", generated, hits, queries)
	}
	begun := time.Now()
	_, first, ok := parseVLLM(page(1000, 10, 100), begun, nil)
	require.True(t, ok)
	tests := []struct {
		name                     string
		generated, hits, queries int
		after                    time.Duration
		throughput, hitRate      float64
		sent                     Fields
	}{
		{"tokens a second", 1500, 60, 200, 10 * time.Second, 50, 0.5, SentUsage | SentThroughput | SentHitRate},
		{"a restarted engine has no rate", 0, 0, 0, 10 * time.Second, 0, 0, SentUsage},
		{"no prompt came: no hit rate", 1000, 10, 100, 10 * time.Second, 0, 0, SentUsage | SentThroughput},
		{"no time has passed", 1500, 10, 100, 0, 0, 0, SentUsage},
		{"more hits than queries are a mistake", 1000, 500, 200, 10 * time.Second, 0, 0, SentUsage | SentThroughput},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, _, ok := parseVLLM(page(tt.generated, tt.hits, tt.queries), begun.Add(tt.after), &first)
			require.True(t, ok)
			require.Equal(t, tt.throughput, l.Throughput)
			require.Equal(t, tt.hitRate, l.HitRate)
			require.Equal(t, tt.sent, l.Sent)
		})
	}
}

// DECISIONS 61: what real engines answer. The page is of vLLM 0.32.0: 64 blocks of 128 tokens, idle.
func TestTheMetricsOfRealEngines(t *testing.T) {
	page, err := os.ReadFile("testdata/vllm-metrics.txt")
	require.NoError(t, err)
	l, first, ok := parseVLLM(page, time.Unix(0, 0), nil)
	require.True(t, ok)
	require.Equal(t, RankLoad{Capacity: 8192, Sent: SentUsage | SentRunning | SentWaiting | SentCapacity}, l)
	later := strings.NewReplacer(
		`vllm:generation_tokens_total{engine="0",model_name="tiny"} 80.0`, `vllm:generation_tokens_total{engine="0",model_name="tiny"} 580.0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0`, `vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25`,
	).Replace(string(page))
	l, _, ok = parseVLLM([]byte(later), time.Unix(10, 0), &first)
	require.True(t, ok)
	require.Equal(t, 50.0, l.Throughput)
	require.EqualValues(t, 2048, l.UsedTokens)

	llama, err := os.ReadFile("testdata/llama-metrics.txt")
	require.NoError(t, err)
	_, ok = vllm(string(llama))
	require.False(t, ok)
	_, ok = sgl(string(llama))
	require.False(t, ok)
}

// Whatever a page says, what comes of it is finite, not negative and within the bounds.
func FuzzParseMetrics(f *testing.F) {
	page, err := os.ReadFile("testdata/vllm-metrics.txt")
	require.NoError(f, err)
	f.Add(page[:4096], page[:2048])
	for _, n := range []string{"-5", "1e308", "9223372036854775807", "NaN", "x", "1.01", "57"} {
		var b strings.Builder
		for _, name := range []string{
			"vllm:kv_cache_usage_perc", "vllm:num_requests_waiting", "vllm:generation_tokens_total", "vllm:prefix_cache_hits_total",
			"vllm:prefix_cache_queries_total", "sglang:token_usage", "sglang_token_usage", "sglang:gen_throughput",
		} {
			fmt.Fprintf(&b, "%s{a=\"}\\\"\"} %s 1\n", name, n)
		}
		f.Add([]byte(b.String()), []byte("vllm:kv_cache_usage_perc 0\nvllm:generation_tokens_total 1\nvllm:cache_config_info{block_size=\""+n+"\",num_gpu_blocks=\"2147483647\"} 1\n"))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		_, was, _ := parseVLLM(one, time.Unix(0, 0), nil)
		v, _, okV := parseVLLM(two, time.Unix(1, 0), &was)
		s, okS := parseSGLang(one)
		for _, got := range []struct {
			l  RankLoad
			ok bool
		}{{v, okV}, {s, okS}} {
			if !got.ok {
				require.Equal(t, RankLoad{}, got.l)
				continue
			}
			requirePlausible(t, NewReport(time.Time{}, time.Time{}, "", []RankLoad{got.l}))
		}
	})
}
