// Package grafana_test keeps the dashboard and the alerts of this folder true: every metric that they name is one that smg
// emits, and a real Prometheus that scrapes a real smg answers every query.
package grafana_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
