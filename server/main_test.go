package server_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/smg-go/smg/server"
)

// TestMain lets six of the parallel tests go at once, on few cores too: they wait for time-outs rather than compute.
func TestMain(m *testing.M) {
	if os.Getenv("SMG_TEST_COLLECTOR_PROCESS") != "" {
		server.RunCollectorProcess()
		return
	}
	waiters := flag.Lookup("test.parallel") // the command line may say otherwise, later
	if err := waiters.Value.Set("6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
