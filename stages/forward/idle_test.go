package forward

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// parallel sends n calls at once and makes all of them hold a connection before any ends.
func parallel(t *testing.T, tr *Transport, n int, pool Pool, s *rawServer) {
	t.Helper()
	held := make([]*answer, n)
	for i := range held {
		c := s.get()
		c.Pool = pool
		a, err := tr.send(c)
		require.NoError(t, err)
		held[i] = a
	}
	for _, a := range held {
		_, err := a.read()
		require.NoError(t, err)
		a.close()
	}
}

// http-dataplane.md, section 8
func TestIdleConnectionsAreKeptUpToTheLimit(t *testing.T) {
	for _, limit := range []int{0, 1, 3} {
		s := listen(t, answers(okAnswer))
		tr := testTransport(t)
		pool := DefaultPool
		pool.MaxIdle = limit
		parallel(t, tr, 5, pool, s)
		open, idle := tr.Connections()
		require.EqualValues(t, limit, idle)
		require.EqualValues(t, limit, open)
	}
}

func TestIdleConnectionsExpire(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	short := Pool{MaxIdle: 10, IdleTimeout: 20 * time.Millisecond}
	parallel(t, tr, 3, short, s)
	require.Eventually(t, func() bool { open, idle := tr.Connections(); return open == 0 && idle == 0 }, 10*time.Second, time.Millisecond)
	require.Zero(t, tr.sweeper.due.Load(), "the timer rests while nothing is idle")
}

func TestAConnectionThatHasExpiredIsNotReused(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	pool := Pool{MaxIdle: 10, IdleTimeout: time.Hour}
	parallel(t, tr, 2, pool, s)
	st := tr.stack(address{s.Dial, pool})
	for _, c := range st.idle {
		c.idleSince -= time.Hour
	}
	parallel(t, tr, 1, pool, s)
	require.EqualValues(t, 3, s.accepted.Load())
	open, _ := tr.Connections()
	require.EqualValues(t, 1, open)
}

// Where nothing expires, what a worker has closed must not pile up.
func TestSweepingClosesWhatTheWorkerHasClosed(t *testing.T) {
	s := listen(t, once(okAnswer))
	tr := testTransport(t)
	pool := Pool{MaxIdle: 10}
	parallel(t, tr, 1, pool, s)
	st := tr.stack(address{s.Dial, pool})
	st.mu.Lock()
	for _, c := range st.idle {
		c.idleSince -= time.Second
	}
	st.mu.Unlock()
	require.Eventually(t, func() bool { st.sweep(); open, _ := tr.Connections(); return open == 0 }, 5*time.Second, time.Millisecond)
}

func TestTheLastConnectionUsedIsReusedFirst(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	parallel(t, tr, 3, DefaultPool, s)
	st := tr.stack(address{s.Dial, DefaultPool})
	last := st.idle[2]
	a, err := tr.send(s.get())
	require.NoError(t, err)
	require.Same(t, last, a.conn)
	require.True(t, a.Reused)
	a.close()
}

func TestPoolsOfDifferentSettingsShareNothing(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	parallel(t, tr, 1, DefaultPool, s)
	parallel(t, tr, 1, Pool{MaxIdle: 1}, s)
	require.EqualValues(t, 2, s.accepted.Load())
}

func TestForgetClosesAndKeepsNothing(t *testing.T) {
	s := listen(t, answers(okAnswer))
	tr := testTransport(t)
	parallel(t, tr, 2, DefaultPool, s)
	inUse, err := tr.send(s.get())
	require.NoError(t, err)
	tr.Forget(s.Dial)
	open, idle := tr.Connections()
	require.EqualValues(t, 1, open)
	require.Zero(t, idle)
	_, err = inUse.read()
	require.NoError(t, err)
	inUse.close()
	open, _ = tr.Connections()
	require.Zero(t, open, "one in use is closed when it is free")
	parallel(t, tr, 1, DefaultPool, s)
	_, idle = tr.Connections()
	require.EqualValues(t, 1, idle, "the address may come back")
}

func TestStacksAreFoundFromEverywhere(t *testing.T) {
	tr := testTransport(t)
	var wg sync.WaitGroup
	found := make([]*stack, 16)
	for i := range found {
		wg.Go(func() { found[i] = tr.stack(address{"127.0.0.1:1", DefaultPool}) })
	}
	wg.Wait()
	for _, s := range found {
		require.Same(t, found[0], s)
	}
}
