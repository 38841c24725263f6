package server

import (
	"errors"
	"log/slog"
)

// CheckFiles opens the files that flags name, and tells what is wrong with what they say, as a start would. It says nothing of flags
// that [Config.Validate] complains of.
func (c *Config) CheckFiles() (found []Violation) {
	discard := slog.New(slog.DiscardHandler)
	_, clients := clientTLS(c, discard)
	_, upstream := workerTLS(c, discard)
	for _, err := range []error{clients, upstream} {
		if wrong, ok := errors.AsType[*ConfigError](err); ok {
			found = append(found, wrong.Violations...)
		}
	}
	return found
}
