package clustertest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// However a test process dies, its end of the pipe is closed: that ends the servers, and etcd takes the folder along.
func TestServersEndWithThePipe(t *testing.T) {
	t.Parallel()
	c, err := open(needBinary(t))
	t.Cleanup(c.close)
	require.NoError(t, err)
	for _, p := range []*process{c.api, c.etcd} {
		require.False(t, p.ended())
		require.NoError(t, p.stdin.Close())
		require.Eventually(t, p.ended, 20*time.Second, 5*time.Millisecond)
	}
	require.NoDirExists(t, c.dir)
}

func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := launch("/bin/sh", log, "-c", "echo the disk is full >&2")
	require.NoError(t, err)
	t.Cleanup(p.kill)
	require.ErrorContains(t, p.until(func() bool { return false }), "the disk is full")
	_, err = launch(filepath.Join(t.TempDir(), "none"), log)
	require.ErrorIs(t, err, os.ErrNotExist)
}
