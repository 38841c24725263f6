package server

import (
	"fmt"
	"strings"
)

// IGW tells whether several models are served, each with its own workers: because --enable-igw says so, or because workers are
// discovered, and nobody knows what they will serve.
func (c *Config) IGW() bool { return c.EnableIGW || c.Discovers() }

// Mode is how the gateway routes, in the words of the banner.
func (c *Config) Mode() string {
	if c.IGW() {
		return "IGW (Inference Gateway)"
	}
	return "Regular"
}

// Banner is what a person who starts the gateway in a terminal sees first: lines of plain text, the last one ended.
func Banner(cfg *Config) string {
	lines := []string{
		"smg",
		"version " + Version,
		"listening " + cfg.Address(),
		"mode " + cfg.Mode(),
	}
	if !cfg.IGW() { // with it each model has its own policy
		lines = append(lines, "Policy: "+cfg.Policy)
	}
	return strings.Join(lines, "\n") + "\n"
}

// Warnings returns sentences about what is allowed but probably not meant.
func (c *Config) Warnings() []string {
	var warnings []string
	unique, repeated := c.splitURLs()
	for _, url := range repeated {
		warnings = append(warnings, fmt.Sprintf("--worker-urls names %s more than once; it is registered once", url))
	}
	// With IGW the number of workers at start says nothing: they come and go.
	if c.Policy == "power_of_two" && !c.IGW() && len(unique) < 2 {
		warnings = append(warnings, "--policy power_of_two chooses between two workers, and fewer are configured")
	}
	if warning := c.unforgotten(); warning != "" {
		warnings = append(warnings, warning)
	}
	return append(warnings, c.idle()...)
}
