package policy

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// entry is a policy that can be had by name.
type entry struct {
	name string
	make func(s Settings, log *slog.Logger) Policy
}

// policies are the policies by name.
var policies = []entry{
	{"random", func(s Settings, _ *slog.Logger) Policy { return random{chance: s.Chance} }},
	{"round_robin", func(Settings, *slog.Logger) Policy { return RoundRobin() }},
	{"passthrough", func(_ Settings, log *slog.Logger) Policy { return Passthrough(log) }},
	{"power_of_two", PowerOfTwo},
	{"least_load", LeastLoad},
	{"cache_aware", CacheAware},
	{"least_work", LeastWork},
	{"consistent_hashing", func(s Settings, _ *slog.Logger) Policy { return ConsistentHashing(s) }},
	{"prefix_hash", PrefixHash},
	{"manual", Manual},
	{"bucket", Bucket},
}

// Names are the names of the policies.
func Names() []string {
	names := make([]string, 0, len(policies))
	for _, p := range policies {
		names = append(names, p.name)
	}
	return names
}

// New makes a policy. The name is matched in any case and with or without underscores; the error lists the names.
func New(name string, s Settings, log *slog.Logger) (Policy, error) {
	if log == nil {
		log = slog.Default()
	}
	i := slices.IndexFunc(policies, func(p entry) bool { return plain(p.name) == plain(name) })
	if i < 0 {
		return nil, fmt.Errorf("unknown policy %q; there are %s", name, strings.Join(Names(), ", "))
	}
	return policies[i].make(s, log), nil
}

func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "") }
