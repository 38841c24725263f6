package telemetry

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strconv"
)

// sampler decides which traces are recorded: for those that begin here a share of them, told by their id so that every process
// decides alike; for others, unless it is deaf, as the parent did.
type sampler struct {
	below uint64 // a trace is recorded if the upper 63 bits of the second half of its id are below
	deaf  bool
}

const samplerEnd = 1 << 63

func (s *sampler) ofParent(parent *traceContext) bool {
	if s.deaf {
		return s.ofRoot(parent)
	}
	return parent.sampled
}

func (s *sampler) ofRoot(c *traceContext) bool {
	return binary.BigEndian.Uint64(c.trace[8:])>>1 < s.below
}

func shareOf(ratio float64) uint64 {
	if ratio >= 1 {
		return samplerEnd
	}
	return uint64(math.Max(ratio, 0) * samplerEnd)
}

// newSampler makes the sampler of a ratio, else that of OTEL_TRACES_SAMPLER, else one that records every trace whose parent is
// recorded.
func newSampler(ratio *float64) (sampler, error) {
	if ratio != nil {
		return sampler{below: shareOf(*ratio)}, nil
	}
	share := uint64(samplerEnd)
	name := os.Getenv("OTEL_TRACES_SAMPLER")
	switch name {
	case "", "always_on", "parentbased_always_on":
	case "always_off", "parentbased_always_off":
		share = 0
	case "traceidratio", "parentbased_traceidratio":
		if arg := os.Getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
			ratio, err := strconv.ParseFloat(arg, 64)
			if err != nil || ratio < 0 || ratio > 1 || math.IsNaN(ratio) {
				return sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG is %q, but it must be a number from 0 to 1", arg)
			}
			share = shareOf(ratio)
		}
	default:
		return sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER is %q, which smg does not know", name)
	}
	return sampler{below: share, deaf: name == "always_on" || name == "always_off" || name == "traceidratio"}, nil
}
