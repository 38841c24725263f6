package launch

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asStandIn makes a process of this test binary play one of the roles.
const asStandIn = "SMG_TEST_STANDIN"

var roles = map[string]func(args []string){}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(asStandIn)]; ok {
		role(os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}
