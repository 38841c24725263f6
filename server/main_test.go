package server_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/smg-go/smg/server"
)

func TestMain(m *testing.M) {
	if os.Getenv("SMG_TEST_COLLECTOR_PROCESS") != "" {
		server.RunCollectorProcess()
		return
	}
	goleak.VerifyTestMain(m)
}
