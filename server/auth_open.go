package server

import (
	"slices"
	"strings"
)

// openSurfaces is the warning about all that everybody can use who reaches it. listeners are those beside the main one.
func (g *gateway) openSurfaces(listeners ...string) string {
	var open []string
	for _, s := range []struct {
		tier tier
		open bool
		what string
	}{
		{serving, g.guards.keys.Len() == 0, "inference"},
		{control, g.guards.open, "routes for operators"},
		{public, true, "public routes"},
	} {
		if s.open {
			open = append(open, s.what+" ("+strings.Join(g.pathsOf(s.tier), " ")+")")
		}
	}
	open = append(open, listeners...)
	return "open without authentication to whoever reaches them: " + strings.Join(open, ", ")
}

// pathsOf are the paths of a tier's routes, each once.
func (g *gateway) pathsOf(t tier) (paths []string) {
	for _, c := range *g.served.Load() {
		if path := pathOf(c.Route()); g.tiers[c.Route()] == t && c.Route() != unmatched && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}
