package telemetry

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// telemetry.md, section 7.2
func TestFilterDecidesByTheLongestPrefix(t *testing.T) {
	tests := []struct {
		name, filter, target string
		want                 slog.Level
	}{
		{"a target's own directive beats the base", "info,smg::service_discovery=debug", "smg::service_discovery", slog.LevelDebug},
		{"another target keeps the base", "info,smg::service_discovery=debug", "smg::policies::bucket", slog.LevelInfo},
		{"a library has the base too", "info,smg::service_discovery=debug", "net/http", slog.LevelInfo},
		{"a directive holds for what starts with it", "warn,smg=info,smg::policies=debug", "smg::policies::cache_aware", slog.LevelDebug},
		{"the longest one wins wherever it stands", "smg::policies=debug,smg=info", "smg::policies::manual", slog.LevelDebug},
		{"a prefix need not end at a separator", "smg=debug", "smg_mesh", slog.LevelDebug},
		{"without a base the unmatched are off", "smg=debug", "net/http", LevelOff},
		{"a target alone means trace", "smg::worker", "smg::worker", LevelTrace},
		{"levels have any case", "Warn,smg=DEBUG", "smg", slog.LevelDebug},
		{"off silences a target", "info,smg::request=off", "smg::request", LevelOff},
		{"of two for one target the last wins", "smg=error,smg=debug", "smg", slog.LevelDebug},
		{"of two bases the last wins", "error,debug", "smg", slog.LevelDebug},
		{"spaces and empty directives are skipped", " info , ,smg = Debug,", "smg", slog.LevelDebug},
		{"an empty filter writes nothing", "", "smg", LevelOff},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := ParseFilter(tt.filter)
			require.NoError(t, err)
			require.Equal(t, tt.want, f.Level(tt.target))
		})
	}
}

// telemetry.md, section 7.2
func TestFilterThatDoesNotParseNamesTheDirective(t *testing.T) {
	for _, bad := range []string{"smg==x", "info,smg=loud", "=info", "smg=", "smg[span]=info", "a b=info", "smg=info=warn"} {
		t.Run(bad, func(t *testing.T) {
			_, err := ParseFilter(bad)
			require.ErrorContains(t, err, "log directive")
			require.ErrorContains(t, err, strings.TrimPrefix(bad, "info,"))
		})
	}
}

// telemetry.md, section 7.2
func TestFilterComesFromTheEnvironmentIfItParses(t *testing.T) {
	tests := []struct {
		name           string
		smg, rust      string
		own, library   slog.Level // levels that result, with --log-level warn
		complaints     int
		complaintNames string
	}{
		{"without a variable the flag holds for smg, and warn for libraries", "", "", slog.LevelWarn, slog.LevelWarn, 0, ""},
		{"RUST_LOG replaces the flag", "", "smg=debug", slog.LevelDebug, LevelOff, 0, ""},
		{"SMG_LOG wins over RUST_LOG", "info", "smg=debug", slog.LevelInfo, slog.LevelInfo, 0, ""},
		{"one that does not parse is ignored with a warning", "", "smg==x", slog.LevelWarn, slog.LevelWarn, 1, "RUST_LOG"},
		{"the next one is read then", "smg==x", "info", slog.LevelInfo, slog.LevelInfo, 1, "SMG_LOG"},
		{"blanks are as good as unset", " ", ",", slog.LevelWarn, slog.LevelWarn, 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"SMG_LOG": tt.smg, "RUST_LOG": tt.rust}
			f, complaints := filterFromEnv(func(k string) string { return env[k] }, slog.LevelWarn)
			require.Equal(t, tt.own, f.Level("smg::policies::bucket"))
			require.Equal(t, tt.library, f.Level("net/http"))
			require.Len(t, complaints, tt.complaints)
			require.Contains(t, strings.Join(complaints, ""), tt.complaintNames)
		})
	}
}

func FuzzParseFilter(f *testing.F) {
	for _, s := range []string{
		"", "info", "info,smg::service_discovery=debug", "smg==x", "smg", "warn,smg=info,smg::policies=debug", ",=,", "a=off,\x00", "é=info",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		filter, err := ParseFilter(s)
		if err != nil {
			require.Equal(t, LevelOff, filter.Level("smg"), "a filter that does not parse must not let anything through")
			return
		}
		for _, d := range filter.directives {
			require.NotEmpty(t, d.prefix)
			require.LessOrEqual(t, filter.Level(d.prefix), LevelOff)
		}
		// A directive that names a target in full, and comes last, decides about it whatever stands before.
		again, err := ParseFilter(s + ",smg::request=error")
		require.NoError(t, err)
		require.Equal(t, slog.LevelError, again.Level("smg::request"))
	})
}
