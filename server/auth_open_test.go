package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// DECISIONS 50
func TestTheWarningNamesWhatIsOpen(t *testing.T) {
	w := newWorld(t)
	open := map[string][3]bool{ // inference, operators, public
		"nothing": {true, true, true}, "API key": {false, false, true}, "tenant keys": {false, false, true}, "operators' keys": {true, false, true},
		"tokens": {true, false, true}, "all of them": {false, false, true},
	}
	for _, s := range w.settings() {
		want, listed := open[s.title]
		if !listed {
			continue
		}
		t.Run(s.title, func(t *testing.T) {
			g := start(t, func(c *Config) {
				s.set(c)
				c.HealthCheckPort = new(0)
			})
			text := g.openSurfaces()
			require.Contains(t, text, "open without authentication")
			require.Equal(t, want[0], contains(text, "inference (/v1/chat/completions "), text)
			require.Equal(t, want[1], contains(text, "routes for operators (/get_loads "), text)
			require.Equal(t, want[2], contains(text, "public routes (/health "), text)
			require.Contains(t, text, "metrics ("+g.metrics.Addr().String()+")")
			require.Contains(t, text, "probes ("+g.probes.Addr().String()+")")
		})
	}
}

func contains(text, part string) bool { return count(text, part) == 1 }
