package telemetry

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
)

// Levels that slog does not name.
const (
	LevelTrace = slog.Level(-8)            // finer than debug
	LevelOff   = slog.Level(math.MaxInt32) // above every record
)

// thirdPartyLevel is what a library may say while no filter is given.
const thirdPartyLevel = slog.LevelWarn

// ParseLevel reads trace, debug, info, warn, error or off, in any case.
func ParseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(s) {
	case "trace":
		return LevelTrace, nil
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	case "off":
		return LevelOff, nil
	}
	return 0, fmt.Errorf("%q is not a log level (trace, debug, info, warn, error, off)", s)
}

// Filter says from which level on the records of a target are written. The zero Filter writes nothing.
type Filter struct {
	directives []directive
	base       slog.Level
	hasBase    bool
}

type directive struct {
	prefix string
	level  slog.Level
}

// DefaultFilter lets smg's own targets speak from level on, and everything else from warn on.
func DefaultFilter(level slog.Level) Filter {
	return Filter{base: thirdPartyLevel, hasBase: true, directives: []directive{{prefix: "smg", level: level}}}
}

// ParseFilter reads comma-separated directives, as RUST_LOG and SMG_LOG hold them: "level" is the base, "target=level" holds
// for every target that starts with target, "target" alone means trace. The longest match wins, of equals the last one.
// Empty directives are skipped. An error names the directive that it could not read.
func ParseFilter(s string) (Filter, error) {
	var f Filter
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if err := f.add(part); err != nil {
			return Filter{}, err
		}
	}
	return f, nil
}

func (f *Filter) add(part string) error {
	target, name, hasLevel := strings.Cut(part, "=")
	if !hasLevel {
		if level, err := ParseLevel(part); err == nil {
			f.base, f.hasBase = level, true
			return nil
		}
		name = "trace"
	}
	target = strings.TrimSpace(target)
	if !validTarget(target) {
		return fmt.Errorf("log directive %q: %q is not a target", part, target)
	}
	level, err := ParseLevel(strings.TrimSpace(name))
	if err != nil {
		return fmt.Errorf("log directive %q: %w", part, err)
	}
	f.directives = append(f.directives, directive{prefix: target, level: level})
	return nil
}

func validTarget(s string) bool {
	for _, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && !strings.ContainsRune("_:-./", rune(c)) {
			return false
		}
	}
	return s != ""
}

// Level is the level from which on records of target are written; [LevelOff] if none is.
func (f Filter) Level(target string) slog.Level {
	level, longest := LevelOff, -1
	if f.hasBase {
		level = f.base
	}
	for _, d := range f.directives {
		if len(d.prefix) >= longest && strings.HasPrefix(target, d.prefix) {
			level, longest = d.level, len(d.prefix)
		}
	}
	return level
}

// filterFromEnv reads SMG_LOG, then RUST_LOG. One that does not parse is passed over with a complaint for the log.
func filterFromEnv(env func(string) string, level slog.Level) (f Filter, complaints []string) {
	for _, name := range []string{"SMG_LOG", "RUST_LOG"} {
		value := env(name)
		if strings.Trim(value, ", \t") == "" {
			continue
		}
		f, err := ParseFilter(value)
		if err == nil {
			return f, complaints
		}
		complaints = append(complaints, fmt.Sprintf("%s is ignored: %v", name, err))
	}
	return DefaultFilter(level), complaints
}
