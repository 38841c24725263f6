package grafana_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

// signal is the part of an alert's expression that is compared with its limit.
func (a alert) signal() string {
	at := comparison.FindAllStringIndex(a.Expr, -1)
	if len(at) == 0 {
		return ""
	}
	return strings.TrimSpace(a.Expr[:at[len(at)-1][0]])
}

var comparison = regexp.MustCompile(` (>|==) [0-9.]+`)

func loadAlerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	text, err := os.ReadFile("alerts.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &file))
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

// telemetry.md, section 9
func TestAlertsNameWhatSmgEmits(t *testing.T) {
	known := emitted(t)
	for _, a := range loadAlerts(t) {
		for _, sentence := range unknown(known, a.Expr, "") {
			t.Errorf("%s: %s", a.Alert, sentence)
		}
		require.NotEmpty(t, a.signal(), "%s compares nothing with a limit", a.Alert)
		require.Contains(t, []string{"critical", "warning"}, a.Labels["severity"], a.Alert)
		require.NotEmpty(t, a.Annotations["summary"], a.Alert)
		require.NotEmpty(t, a.Annotations["description"], a.Alert)
	}
}

// The cases of alerts_test.yaml are run by promtool, below; here: every alert has one in which it fires, and the texts of an
// alert name no label that it does not have when it does.
func TestEveryAlertHasACaseInWhichItFires(t *testing.T) {
	firing := firingAlerts(t)
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	for _, a := range loadAlerts(t) {
		series, fires := firing[a.Alert]
		require.True(t, fires, "no case of alerts_test.yaml has %s firing", a.Alert)
		for _, text := range a.Annotations {
			for _, m := range label.FindAllStringSubmatch(text, -1) {
				require.Contains(t, series, ","+m[1]+`="`, "%s has no label %s", a.Alert, m[1])
			}
		}
	}
}

// firingAlerts are the series that the cases of alerts_test.yaml expect, by alert.
func firingAlerts(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Tests []struct {
			Cases []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	text, err := os.ReadFile("alerts_test.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &file))
	name := regexp.MustCompile(`alertname="(\w+)"`)
	firing := map[string]string{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			for _, sample := range c.Samples {
				firing[name.FindStringSubmatch(sample.Labels)[1]] = sample.Labels
			}
		}
	}
	return firing
}
