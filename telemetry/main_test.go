package telemetry

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(collectorProcess) != "" {
		collect()
		return
	}
	goleak.VerifyTestMain(m)
}
