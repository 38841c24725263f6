package discovery_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/smg-go/smg/discovery/clustertest"
)

// TestMain lets many scenarios wait at once where there is a cluster: they wait for clocks and other processes, hardly for a core.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(clustertest.Variable) != "" {
		_ = flag.Set("test.parallel", "16")
	}
	if os.Getenv(asSource) != "" {
		os.Exit(m.Run()) // a process that measures and ends, whatever its connections are about to do
	}
	goleak.VerifyTestMain(m)
}
