// Package kubernetes_test keeps the manifests of this folder and the chart beside it true: they are read as the types they are, their
// flags are asked of smg, what they run is run, and where there is an API server they are applied to it.
package kubernetes_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// scratch is where programs are built.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "smg-manifests-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := errors.Join(goleak.Find(), os.RemoveAll(scratch)); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
