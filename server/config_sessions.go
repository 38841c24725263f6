package server

import (
	"fmt"

	"github.com/smg-go/smg/stages/policy"
)

// SessionConfig says how requests with a routing key stay with a worker.
type SessionConfig struct {
	RoutingKeyHeaders  []string `name:"routing-key-headers" type:"headers" default:"x-smg-routing-key" placeholder:"NAME ..." help:"Request headers that may carry the routing key; the first one with a valid value wins. Given without a value: no header is consulted."`
	RoutingKeyOverride bool     `name:"routing-key-override" aliases:"sticky-sessions" help:"Keep requests with the same routing key on one worker, whatever the policy; the body's rid is a key as well. Bodies are read always."`
	AssignmentMode     *string  `name:"assignment-mode" placeholder:"MODE" enum:"random,min_load,min_group,delegate" help:"How a new key gets its worker: ${enum}. Unset: random for the policy manual, delegate (as the policy says) for --routing-key-override."`
	MaxIdle            Seconds  `name:"max-idle-secs" aliases:"sticky-key-idle-secs" default:"14400" help:"Seconds without a request after which a key is forgotten, in rounds of --eviction-interval. 0: never."`
}

func defaultSessions() SessionConfig {
	return SessionConfig{RoutingKeyHeaders: []string{"x-smg-routing-key"}, MaxIdle: 14400}
}

// Assignment is the mode that was asked for; AssignUnset leaves it to what uses it.
func (c *SessionConfig) Assignment() policy.Assignment {
	if c.AssignmentMode == nil {
		return policy.AssignUnset
	}
	return policy.Assignment(*c.AssignmentMode)
}

func (c *SessionConfig) check(found *violations) {
	found.headers("--routing-key-headers", c.RoutingKeyHeaders)
	switch c.Assignment() {
	case policy.AssignUnset, policy.AssignRandom, policy.AssignMinLoad, policy.AssignMinGroup, policy.AssignDelegate:
	default:
		found.add("--assignment-mode", *c.AssignmentMode, "must be random, min_load, min_group or delegate")
	}
	found.seconds("--max-idle-secs", c.MaxIdle, 0)
}

// unforgotten is the warning about routing keys that are never dropped; "" if there is no reason for one.
func (c *Config) unforgotten() string {
	if c.Policy != "manual" && !c.RoutingKeyOverride {
		return ""
	}
	for _, flag := range []struct {
		name  string
		value Seconds
	}{{"--max-idle-secs", c.MaxIdle}, {"--eviction-interval", c.EvictionInterval}} {
		if flag.value == 0 {
			return fmt.Sprintf("with %s 0 no routing key is ever forgotten; memory grows with every new one", flag.name)
		}
	}
	return ""
}
