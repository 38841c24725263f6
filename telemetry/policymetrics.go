package telemetry

import "github.com/prometheus/client_golang/prometheus"

// PolicyMetrics counts the decisions of policies, each by the branch it took. Every series exists from the start.
type PolicyMetrics struct {
	CacheAware        map[string]prometheus.Counter // smg_cache_aware_policy_branch_total
	MatchRatio        prometheus.Observer           // smg_cache_aware_match_ratio: of decisions by a tree
	PrefixHash        map[string]prometheus.Counter // smg_prefix_hash_policy_branch_total
	ConsistentHashing map[string]prometheus.Counter // smg_consistent_hashing_policy_branch_total
	Manual            map[string]prometheus.Counter // smg_manual_policy_branch_total, of sticky sessions as well
	ManualEntries     prometheus.Gauge              // smg_manual_policy_cache_entries
	KeySource         map[string]prometheus.Counter // smg_routing_key_source_total

	TreeChars, TreeTokens *prometheus.GaugeVec // smg_cache_tree_chars and _tokens, by model
	TreeTenants           *prometheus.GaugeVec // smg_cache_tree_tenants, by model and tree (string or token)
	IndexBytes            prometheus.Gauge     // smg_cache_index_bytes

	decisions *prometheus.HistogramVec
	decided   cowMap[string, prometheus.Observer]
}

// Decision observes the seconds that a policy took to choose a worker.
func (m *PolicyMetrics) Decision(policy string) prometheus.Observer {
	return m.decided.getOrMake(policy, func(policy string) (prometheus.Observer, bool) {
		return m.decisions.WithLabelValues(cleanLabel(policy)), true
	})
}

var deciles = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}

func newPolicyMetrics(f *families) *PolicyMetrics {
	branches := func(name, help, label string, values ...string) map[string]prometheus.Counter {
		v := f.counterVec(name, help, label)
		all := make(map[string]prometheus.Counter, len(values))
		for _, value := range values {
			all[value] = v.WithLabelValues(value)
		}
		return all
	}
	return &PolicyMetrics{
		CacheAware: branches("smg_cache_aware_policy_branch_total", "Decisions of cache_aware by a tree.", "branch",
			"tree_match", "spill", "expected_wait_fallback", "first_healthy_fallback"),
		MatchRatio: f.histogramVec("smg_cache_aware_match_ratio", "Share of the prompt that the best match of a decision by a tree covered.", deciles).
			WithLabelValues(),
		PrefixHash: branches("smg_prefix_hash_policy_branch_total", "Decisions of prefix_hash.", "branch",
			"ring_hit", "load_balance_walk", "fallback_least_load", "no_routing_key", "no_healthy_workers"),
		ConsistentHashing: branches("smg_consistent_hashing_policy_branch_total", "Decisions of consistent_hashing.", "branch",
			"target_worker_hit", "target_worker_miss", "routing_key_hit", "random_fallback", "no_healthy_workers"),
		Manual: branches("smg_manual_policy_branch_total", "Decisions of manual and of sticky sessions.", "branch",
			"occupied_hit", "occupied_miss", "vacant", "cap_respill", "no_routing_id", "no_healthy_workers"),
		decisions: f.histogramVec("smg_policy_decision_seconds",
			"Time that a policy took to choose a worker; of one request in 64.", stageBuckets, "policy"),
		ManualEntries: f.gaugeVec("smg_manual_policy_cache_entries", "Routing keys that are pinned to workers.").WithLabelValues(),
		KeySource:     branches("smg_routing_key_source_total", "Requests with a routing key under sticky sessions, by where it came from.", "source", "rid", "header"),
		TreeChars:     f.gaugeVec("smg_cache_tree_chars", "Characters in a model's text tree, summed over workers.", "model"),
		TreeTokens:    f.gaugeVec("smg_cache_tree_tokens", "Tokens in a model's token tree, summed over workers.", "model"),
		TreeTenants:   f.gaugeVec("smg_cache_tree_tenants", "Workers in a tree of a model.", "model", "tree"),
		IndexBytes:    f.gaugeVec("smg_cache_index_bytes", "Memory of all prefix indexes, in bytes.").WithLabelValues(),
	}
}
