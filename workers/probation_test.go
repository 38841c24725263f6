package workers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// probationScript plays results, S or F, and tells each change of state and after how many results it came.
func probationScript(from Status, script string, s HealthSettings) string {
	var p probation
	now, said := from, []string(nil)
	for i, result := range script {
		to := p.apply(result == 'S', now == Pending, now, s)
		if to != now {
			said = append(said, fmt.Sprintf("%d:%s", i+1, to))
		}
		now = to
	}
	return strings.Join(said, " ")
}

// workers.md section 6; failure threshold 3, success threshold 2
func TestProbation(t *testing.T) {
	f, fs := func(n int) string { return strings.Repeat("F", n) }, strings.Repeat("FS", 15)
	tests := []struct {
		name   string
		from   Status
		script string
		want   string
	}{
		{"an engine that dies is out at the 3rd failure and given up at the 12th", Ready, f(20), "3:not_ready 12:failed"},
		{"a success between begins anew", Ready, "FFSFFSFFF", "9:not_ready"},
		{"one success is not enough to come back", NotReady, "SFSS", "4:ready"},
		{"a success begins the way to failed anew", NotReady, f(8) + "S" + f(9), "18:failed"},
		{"failed comes back under the same rule", Failed, "FFSFSS", "6:ready"},
		{"failed stays failed", Failed, f(50), ""},
		{"a pending worker is given up at the 30th probe", Pending, f(35), "30:failed"},
		{"a pending worker that cannot decide is given up at the 30th probe", Pending, fs, "30:failed"},
		{"a pending worker that makes it in time", Pending, f(28) + "SS", "30:ready"},
		{"a pending worker that is one too late", Pending, f(29) + "S", "30:failed"},
		{"a pending worker that is up", Pending, "SS", "2:ready"},
		{"who came back fails by the full rule again", NotReady, "SSFFSFFF", "2:ready 8:not_ready"},
		{"draining is left to the removal", Draining, f(20) + "SSS", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, probationScript(tt.from, tt.script, DefaultHealthSettings()))
		})
	}
	once := DefaultHealthSettings()
	once.FailureThreshold, once.SuccessThreshold = 1, 1
	require.Equal(t, "1:not_ready 4:failed 5:ready", probationScript(Ready, "FFFFS", once))
}
