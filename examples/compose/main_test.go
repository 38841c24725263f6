// Package compose_test keeps the files of this folder and the Dockerfile true, as far as that goes without a container daemon:
// the Dockerfile is followed instruction by instruction in folders, and the services run as processes.
package compose_test

import (
	"testing"

	"go.uber.org/goleak"
)

// root is the module's folder, and the build context of the images.
const root = "../.."

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
