package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// tenants is the list of tenants with their tiers. It follows a file that has a line for each: the tenant, a blank, the tier.
type tenants struct {
	file  string
	every time.Duration // from one look at the file to the next
	known atomic.Pointer[map[string]string]
}

// tier is one atomic load and a look-up. A list that was never read knows nobody.
func (t *tenants) tier(tenant string) (tier string, known bool) {
	list := t.known.Load()
	if list == nil {
		return "", false
	}
	tier, known = (*list)[tenant]
	return tier, known
}

// Name is part of [pipeline.Dependency].
func (*tenants) Name() string { return "tenants" }

// Run is part of [pipeline.Dependency]. An error ends it; then the runtime logs that and starts it again a moment later, and what was
// read last is used meanwhile.
func (t *tenants) Run(ctx context.Context, ready func()) error {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		if err := t.read(); err != nil {
			return err
		}
		ready()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (t *tenants) read() error {
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	list, err := parseTenants(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	t.known.Store(&list)
	return nil
}

// parseTenants reads a list. Empty lines and those that begin with # are skipped; one mistake refuses the whole list.
func parseTenants(text string) (map[string]string, error) {
	list := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 || words[1] != standard && words[1] != premium {
			return nil, fmt.Errorf("line %d is not a tenant and its tier, %s or %s", number, standard, premium)
		}
		list[words[0]] = words[1]
	}
	return list, nil
}
