package workers

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// twoRanks is the body of load-signals.md, section 3.3, first Check.
const twoRanks = `{"timestamp":"t","dp_rank_count":2,"loads":[
	{"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":1,"num_waiting_uncached_tokens":900,"num_used_tokens":1000,"max_total_num_tokens":4000,
	 "token_usage":0.25,"gen_throughput":120.5,"cache_hit_rate":0.5,"max_running_requests":64},
	{"dp_rank":1,"num_waiting_reqs":2,"token_usage":0.75}]}`

// reportOf is the report that a body of /v1/loads makes.
func reportOf(t testing.TB, body string) *Report {
	t.Helper()
	timestamp, ranks, err := parseLoads([]byte(body))
	require.NoError(t, err)
	require.NotEmpty(t, ranks)
	return NewReport(time.Time{}, time.Time{}, timestamp, ranks)
}

// load-signals.md, sections 3.1 and 3.3
func TestRanksAreSummedUpAndTheirUsageIsAMean(t *testing.T) {
	r := reportOf(t, twoRanks)
	require.Equal(t, "t", r.Timestamp)
	require.EqualValues(t, 3, r.Running)
	require.EqualValues(t, 3, r.Waiting)
	require.Equal(t, 0.5, r.Usage)
	require.Equal(t, 120.5, r.Throughput)
	require.EqualValues(t, 900+2*1024, r.QueuedTokens(1024))
	require.True(t, r.UsageKnown)
	require.False(t, r.Vague)
	require.EqualValues(t, 64, r.RunningLimit)
	require.EqualValues(t, 4000, r.Capacity)

	tests := []struct {
		name  string
		ranks string
		check func(*Report) any
		want  any
	}{
		{"usage is the mean", `{"token_usage":1.0},{"token_usage":0.5}`, func(r *Report) any { return r.Usage }, 0.75},
		{"waiting is the sum", `{"num_waiting_reqs":3},{"num_waiting_reqs":4}`, func(r *Report) any { return r.Waiting }, int64(7)},
		{"throughput is the sum", `{"gen_throughput":100},{"gen_throughput":200}`, func(r *Report) any { return r.Throughput }, 300.0},
		{
			"a rank that does not tell its tokens is estimated alone",
			`{"num_waiting_uncached_tokens":500,"num_waiting_reqs":2},{"num_waiting_uncached_tokens":0,"num_waiting_reqs":3}`,
			func(r *Report) any { return r.QueuedTokens(1024) }, 3572.0,
		},
		{"the mean of equals is what each of them is", strings.Repeat(`{"token_usage":0.9},`, 6) + `{"token_usage":0.9}`, func(r *Report) any { return r.Usage }, 0.9},
		{"all ranks tell their tokens", `{"num_waiting_uncached_tokens":0},{"num_waiting_uncached_tokens":3}`, func(r *Report) any { return r.CountsTokens() }, true},
		{"one rank does not", `{"num_waiting_uncached_tokens":0},{"num_waiting_reqs":3}`, func(r *Report) any { return r.CountsTokens() }, false},
		{"no report tells them", `{"num_waiting_reqs":3}`, func(*Report) any { return (*Report)(nil).CountsTokens() }, false},
		{"a report without a figure of usage knows none", `{"num_waiting_reqs":3}`, func(r *Report) any { return r.UsageKnown }, false},
		{"an empty cache is a figure", `{"token_usage":0}`, func(r *Report) any { return r.UsageKnown }, true},
		{"one rank's figure is known", `{"num_waiting_reqs":3},{"token_usage":0}`, func(r *Report) any { return r.UsageKnown }, true},
		{"a rank that tells no usage is not an empty one", `{"num_waiting_reqs":3},{"token_usage":0.5},{"token_usage":"x"},{"token_usage":1}`, func(r *Report) any { return r.Usage }, 0.75},
		{"what is left out makes no report vague", `{"num_running_reqs":3}`, func(r *Report) any { return r.Vague }, false},
		{"a huge queue does", `{"num_waiting_reqs":1e300,"token_usage":0.5}`, func(r *Report) any { return r.Vague }, true},
		{"in any rank", `{"num_waiting_reqs":3},{"num_waiting_reqs":[],"token_usage":0.5}`, func(r *Report) any { return r.Vague }, true},
		{"not where its tokens are told", `{"num_waiting_reqs":1e300,"num_waiting_uncached_tokens":5}`, func(r *Report) any { return r.Vague }, false},
		{"nor nonsense of tokens where requests are told", `{"num_waiting_reqs":0,"num_waiting_uncached_tokens":true}`, func(r *Report) any { return r.Vague }, false},
		{"nonsense of both does", `{"num_waiting_reqs":1e300,"num_waiting_uncached_tokens":true,"token_usage":0}`, func(r *Report) any { return r.Vague }, true},
		{"of tokens alone as well", `{"num_waiting_uncached_tokens":true,"token_usage":0}`, func(r *Report) any { return r.Vague }, true},
		{"a percentage of usage does", `{"num_waiting_reqs":0,"token_usage":57}`, func(r *Report) any { return r.Vague }, true},
		{"a throughput that cannot be does not", `{"num_waiting_reqs":0,"gen_throughput":1e12}`, func(r *Report) any { return r.Vague }, false},
		{
			"what was ignored has a name", `{"num_waiting_reqs":0,"gen_throughput":1e12},{"num_running_reqs":"x","max_running_requests":{},"token_usage":0}`,
			func(r *Report) any { return (&polled{ranks: r.Ranks}).ignored().String() }, "num_running_reqs,gen_throughput,max_running_requests",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.check(reportOf(t, `{"loads":[`+tt.ranks+`]}`)))
		})
	}
}

// load-signals.md, section 3.3; DECISIONS 45
func TestLoadsAreReadLeniently(t *testing.T) {
	base := RankLoad{Running: 1, Total: 1, Sent: SentRunning}
	with := func(change func(*RankLoad)) RankLoad {
		l := base
		change(&l)
		return l
	}
	ignoring := func(f Fields) RankLoad { return with(func(l *RankLoad) { l.Ignored = f }) }
	tests := []struct {
		name, rank string
		want       RankLoad
	}{
		{"what is missing is 0, and known as missing", `{"num_running_reqs":1}`, base},
		{"a count may be a float", `{"num_running_reqs":1.0}`, base},
		{"unknown fields are ignored", `{"num_running_reqs":1,"speculative":{"x":[1]},"num_total_tokens":"?"}`, base},
		{"a field of another type is ignored", `{"num_running_reqs":1,"num_waiting_reqs":"7","token_usage":[],"gen_throughput":true,"dp_rank":{}}`, ignoring(SentWaiting | SentUsage | SentThroughput)},
		{"null is no number", `{"num_running_reqs":1,"num_waiting_reqs":null,"token_usage":null}`, base},
		{"a negative count is 0", `{"num_running_reqs":1,"num_waiting_reqs":-3}`, with(func(l *RankLoad) { l.Sent |= SentWaiting })},
		{"a negative ratio is 0", `{"num_running_reqs":1,"token_usage":-0.1}`, with(func(l *RankLoad) { l.Sent |= SentUsage })},
		{"a huge count is a mistake", `{"num_running_reqs":1,"num_waiting_reqs":9223372036854775807,"max_total_num_tokens":1e300}`, ignoring(SentWaiting | SentCapacity)},
		{"a number that is not finite is none", `{"num_running_reqs":1,"gen_throughput":1e999,"token_usage":-1e999}`, ignoring(SentThroughput | SentUsage)},
		{"no engine generates so much", `{"num_running_reqs":1,"gen_throughput":1e12}`, ignoring(SentThroughput)},
		{"a percentage is no ratio", `{"num_running_reqs":1,"token_usage":57.0}`, ignoring(SentUsage)},
		{"a cache may be full and a little more", `{"num_running_reqs":1,"token_usage":1.01}`, with(func(l *RankLoad) { l.Usage, l.Sent = 1, l.Sent|SentUsage })},
		{"the total is what the engine says", `{"num_running_reqs":1,"num_total_reqs":5}`, with(func(l *RankLoad) { l.Total, l.Sent = 5, l.Sent|SentTotal })},
		{"names match in their exact case", `{"num_running_reqs":1,"Num_Waiting_Reqs":7}`, base},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, []RankLoad{tt.want}, reportOf(t, `{"loads":[`+tt.rank+`]}`).Ranks)
		})
	}
}

// load-signals.md, section 3.3
func TestWhatIsALoadObject(t *testing.T) {
	tests := []struct {
		name, body string
		ranks      int
		err        error
	}{
		{"loads with an entry", `{"loads":[{"num_running_reqs":0}]}`, 1, nil},
		{"loads without one", `{"timestamp":"t","loads":[]}`, 0, nil},
		{"an entry that tells nothing", `{"loads":[{},{"dp_rank":1},{"token_usage":"x"},7,null,"x"]}`, 0, nil},
		{"an entry beside one that tells nothing", `{"loads":[{},{"token_usage":0}]}`, 1, nil},
		{"loads of null", `{"loads":null}`, 0, errNoLoads},
		{"loads that are no list", `{"loads":{"token_usage":0}}`, 0, errNoLoads},
		{"another object", `{"detail":"x"}`, 0, errNoLoads},
		{"a list", `[{"num_running_reqs":0}]`, 0, errNoLoads},
		{"a page", `<html></html>`, 0, errNoLoads},
		{"half of one", `{"loads":[{"num_running_reqs":0}`, 0, errNoLoads},
		{"nothing", ``, 0, errNoLoads},
		{"more ranks than an engine has", `{"loads":[` + strings.Repeat(`{"num_running_reqs":1},`, 9999) + `{}]}`, maxRanks, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, ranks, err := parseLoads([]byte(tt.body))
			require.Len(t, ranks, tt.ranks)
			require.Equal(t, tt.err, err)
		})
	}
}

// load-signals.md, section 3.3: flat fields of older builds and the nested section of current ones
func TestDisaggregationIsReadFlatAndNested(t *testing.T) {
	tests := []struct{ name, fields, want string }{
		{"nothing", `"x":1`, ``},
		{
			"the section", `"disaggregation":{"mode":"prefill","prefill_prealloc_queue_reqs":2,"prefill_inflight_queue_reqs":5,"decode_prealloc_queue_reqs":1,
				"decode_transfer_queue_reqs":4,"decode_retracted_queue_reqs":7,"kv_transfer_speed_gb_s":1.5,"kv_transfer_latency_ms":20}`,
			`,"disagg_mode":"prefill","kv_transfer_latency_ms":20,"kv_transfer_speed_gb_s":1.5,"prefill_queue_reqs":7,"decode_queue_reqs":12`,
		},
		{"the flat fields", `"disagg_mode":"decode","decode_queue_reqs":3,"kv_transfer_latency_ms":2`, `,"disagg_mode":"decode","kv_transfer_latency_ms":2,"decode_queue_reqs":3`},
		{"the section wins", `"disagg_mode":"decode","decode_queue_reqs":3,"disaggregation":{"mode":"prefill","decode_transfer_queue_reqs":9}`, `,"disagg_mode":"prefill","decode_queue_reqs":9`},
		{"a section of another type", `"disaggregation":[1],"memory":"x","queues":7`, ``},
		{
			"memory and queues", `"memory":{"weight_gb":1,"kv_cache_gb":2,"graph_gb":3,"token_capacity":4},"queues":{"waiting":1,"grammar":2,"paused":3,"retracted":4}`,
			`,"memory":{"weight_gb":1,"kv_cache_gb":2,"graph_gb":3,"token_capacity":4},"queues":{"waiting":1,"grammar":2,"paused":3,"retracted":4}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(reportOf(t, `{"timestamp":"t","loads":[{"num_running_reqs":1,`+tt.fields+`}]}`))
			require.NoError(t, err)
			require.Equal(t, `{"timestamp":"t","dp_rank_count":1,"loads":[{"dp_rank":0,"num_running_reqs":1,"num_waiting_reqs":0,"num_total_reqs":1,`+
				`"num_waiting_uncached_tokens":0,"num_used_tokens":0,"max_total_num_tokens":0,"token_usage":0,"gen_throughput":0,"cache_hit_rate":0,`+
				`"utilization":0,"max_running_requests":0`+tt.want+`}]}`, string(got))
		})
	}
}

// load-signals.md, section 6
func TestOverload(t *testing.T) {
	tests := []struct {
		name     string
		ceilings OverloadSettings
		ranks    string
		over     bool
	}{
		{"one waits less than the ceiling", OverloadSettings{WaitingRequests: 8}, `{"num_waiting_reqs":7}`, false},
		{"as many wait as the ceiling says", OverloadSettings{WaitingRequests: 8}, `{"num_waiting_reqs":8}`, true},
		{"those of all ranks count", OverloadSettings{WaitingRequests: 8}, `{"num_waiting_reqs":4},{"num_waiting_reqs":4}`, true},
		{"usage under the ceiling", OverloadSettings{TokenUsage: 0.9}, `{"token_usage":0.89}`, false},
		{"usage at the ceiling", OverloadSettings{TokenUsage: 0.9}, `{"token_usage":0.90}`, true},
		{"usage of all ranks is their mean", OverloadSettings{TokenUsage: 0.9}, `{"token_usage":1.0},{"token_usage":0.5}`, false},
		{"usage at another ceiling", OverloadSettings{TokenUsage: 0.8}, `{"token_usage":0.8},{"token_usage":0.8},{"token_usage":0.8}`, true},
		{"usage alone: many may wait", OverloadSettings{TokenUsage: 0.9}, `{"num_waiting_reqs":10000,"token_usage":0.1}`, false},
		{"usage alone: a full cache", OverloadSettings{TokenUsage: 0.9}, `{"token_usage":0.95}`, true},
		{"either of two is enough: waiting", OverloadSettings{WaitingRequests: 16, TokenUsage: 0.5}, `{"num_waiting_reqs":16,"token_usage":0.1}`, true},
		{"either of two is enough: usage", OverloadSettings{WaitingRequests: 16, TokenUsage: 0.5}, `{"num_waiting_reqs":1,"token_usage":0.5}`, true},
		{"without ceilings nobody is", OverloadSettings{}, `{"num_waiting_reqs":10000,"token_usage":1}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.over, tt.ceilings.Over(reportOf(t, `{"loads":[`+tt.ranks+`]}`)))
			require.Equal(t, tt.ceilings != OverloadSettings{}, tt.ceilings.On())
		})
	}
}

// load-signals.md, section 6: effective thresholds for each worker and signal
func TestCeilingsOfAWorkerOverrideTheGatewaysOneByOne(t *testing.T) {
	gateway := DefaultSettings()
	gateway.Overload = OverloadSettings{WaitingRequests: 16}
	tests := []struct {
		name string
		spec string
		want OverloadSettings
	}{
		{"none of its own", ``, OverloadSettings{WaitingRequests: 16}},
		{"one of its own", `,"overload":{"token_usage":0.5}`, OverloadSettings{WaitingRequests: 16, TokenUsage: 0.5}},
		{"both", `,"overload":{"token_usage":0.5,"waiting_requests":2}`, OverloadSettings{WaitingRequests: 2, TokenUsage: 0.5}},
		{"the gateway's are not for providers", `,"runtime_type":"external"`, OverloadSettings{}},
		{"a provider may have its own", `,"runtime_type":"external","overload":{"waiting_requests":2}`, OverloadSettings{WaitingRequests: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := ParseSpec([]byte(`{"url":"http://w:1"` + tt.spec + `}`))
			require.NoError(t, err)
			w, err := New(spec, gateway)
			require.NoError(t, err)
			require.Equal(t, tt.want, w.Settings().Overload)
		})
	}
}

// Whatever an engine answers, what comes of it is finite, not negative and within the bounds.
func FuzzParseLoads(f *testing.F) {
	f.Add([]byte(twoRanks))
	for _, n := range []string{"-5", "1e308", "9223372036854775807", "null", `"x"`, "[]", "1.01", "57"} {
		f.Add(fmt.Appendf(nil, `{"timestamp":%[1]s,"loads":[{"num_waiting_reqs":%[1]s,"token_usage":%[1]s,"gen_throughput":%[1]s,"dp_rank":%[1]s,"disaggregation":{"mode":%[1]s,"kv_transfer_latency_ms":%[1]s}}]}`, n))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		timestamp, ranks, err := parseLoads(body)
		if err != nil {
			require.Empty(t, ranks)
			return
		}
		if len(ranks) == 0 {
			return
		}
		requirePlausible(t, NewReport(time.Time{}, time.Time{}, timestamp, ranks))
	})
}

func requirePlausible(t *testing.T, r *Report) {
	t.Helper()
	for i := range r.Ranks {
		require.NotZero(t, r.Ranks[i].Sent)
	}
	require.GreaterOrEqual(t, r.QueuedTokens(1024), 0.0)
	for _, n := range []int64{r.Running, r.Waiting, r.WaitingTokens, r.RunningLimit, r.Capacity} {
		require.GreaterOrEqual(t, n, int64(0))
	}
	require.True(t, r.Usage >= 0 && r.Usage <= 1+1e-9, "%v", r.Usage)
	require.True(t, r.Throughput >= 0 && !math.IsInf(r.Throughput, 0), "%v", r.Throughput)
	_, err := json.Marshal(r)
	require.NoError(t, err)
}
