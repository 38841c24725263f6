package server

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"
)

const maxPort = 1<<16 - 1

// Violation is one value that the gateway cannot start with.
type Violation struct {
	Flag   string // with its dashes: --port
	Value  string // as given, or masked if it is a secret
	Reason string // what the value must be, or why it is refused
}

// String returns the violation as one line: invalid --port: '0': must be between 1 and 65535.
func (v Violation) String() string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' ' // a line break in a value must not break the line
		}
		return r
	}, v.Value)
	return fmt.Sprintf("invalid %s: '%s': %s", v.Flag, printable, v.Reason)
}

// Validate returns everything that is wrong with the configuration, in the order of the flags; none means that it is valid.
// It binds, opens, resolves and contacts nothing.
func (c *Config) Validate() []Violation {
	var found violations
	c.WorkerConfig.check(&found)
	c.PolicyConfig.check(&found)
	c.CacheConfig.check(&found)
	c.checkEviction(&found)
	c.PrefixConfig.check(&found)
	c.WaitConfig.check(&found)
	c.SessionConfig.check(&found)
	c.OverloadConfig.check(&found)
	c.LoadConfig.check(&found)
	c.RequestConfig.check(&found)
	c.AdmissionConfig.check(&found)
	c.AuthConfig.check(&found)
	c.JWTConfig.check(&found)
	c.RetryConfig.check(&found)
	c.BreakerConfig.check(&found)
	c.HealthConfig.check(&found)
	c.JobConfig.check(&found)
	c.DiscoveryConfig.check(&found)
	c.MetricsConfig.check(&found)
	c.TraceConfig.check(&found)
	c.TLSConfig.check(&found)
	c.RuntimeConfig.check(&found)
	c.checkCollisions(&found)
	return found
}

// violations gathers what the checks of a configuration find.
type violations []Violation

func (v *violations) add(flag string, value any, reason string, args ...any) {
	if len(args) > 0 {
		reason = fmt.Sprintf(reason, args...)
	}
	*v = append(*v, Violation{Flag: flag, Value: fmt.Sprint(value), Reason: reason})
}

// whole checks that lo <= n <= hi; hi is left out of the sentence if nobody would reach it.
func (v *violations) whole(flag string, n, lo, hi int64) {
	switch {
	case n >= lo && n <= hi:
	case hi >= math.MaxInt32 && n < lo:
		v.add(flag, n, "must be at least %d", lo)
	default:
		v.add(flag, n, "must be between %d and %d", lo, hi)
	}
}

func (v *violations) seconds(flag string, s Seconds, lo int64) {
	v.whole(flag, int64(s), lo, maxSeconds)
}

// fraction checks that f is a number with lo <= f <= hi. The smallest positive float as lo stands for "above 0", the largest
// as hi for "finite".
func (v *violations) fraction(flag string, f, lo, hi float64) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		v.add(flag, f, "must be a finite number")
	case f >= lo && f <= hi:
	case lo == math.SmallestNonzeroFloat64:
		v.add(flag, f, "must be above 0")
	case hi == math.MaxFloat64:
		v.add(flag, f, "must be at least %.1f", lo)
	default:
		v.add(flag, f, "must be between %.1f and %.1f", lo, hi)
	}
}

func (v *violations) headers(flag string, names []string) {
	for _, name := range names {
		if !httpguts.ValidHeaderFieldName(name) {
			v.add(flag, name, "must be the name of an HTTP header")
		}
	}
}
