package workers

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func settling(url string, secs uint32) Spec {
	s := NewSpec(url)
	s.Health = &HealthSpec{DrainSettleSecs: &secs}
	return s
}

// workers.md section 17; time is the test's own
func TestRemovalOfAnAddress(t *testing.T) {
	type member struct {
		url    string
		settle uint32
		status Status
	}
	tests := []struct {
		name    string
		members []member
		window  time.Duration
		logged  string
	}{
		{"one that is ready", []member{{"http://w:1", 5, Ready}}, 5 * time.Second, "Draining 1 worker(s) for 5s before removal"},
		{"every scheme and rank", []member{{"http://w:1@0", 5, Ready}, {"http://w:1@1", 9, Ready}, {"grpc://w:1", 1, Ready}}, 9 * time.Second, "Draining 3 worker(s) for 9s before removal"},
		{"the window is that of those that were ready", []member{{"http://w:1@0", 5, Ready}, {"http://w:1@1", 9, Failed}}, 5 * time.Second, "Draining 1 worker(s) for 5s before removal"},
		{"nobody was ready", []member{{"http://w:1", 30, NotReady}}, 0, ""},
		{"a window of 0", []member{{"http://w:1", 0, Ready}}, 0, ""},
		{"a window of 0 beside another", []member{{"http://w:1@0", 0, Ready}, {"http://w:1@1", 2, Ready}}, 2 * time.Second, "Draining 1 worker(s) for 2s before removal"},
		{"a long window", []member{{"http://w:1", 3600, Ready}}, time.Hour, "Draining 1 worker(s) for 1h0m0s before removal"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				e := NewEnroller(NewRegistry(), DefaultSettings(), quick, slog.New(slog.NewTextHandler(&log, nil)))
				defer e.Close()
				other := add(t, e.registry, NewSpec("http://other:1"))
				for _, m := range tt.members {
					add(t, e.registry, settling(m.url, m.settle)).SetStatus(m.status)
				}
				require.NoError(t, e.RemoveAt(t.Context(), "w:1"))
				if tt.window > 0 {
					time.Sleep(tt.window - 1)
					synctest.Wait()
					require.Equal(t, len(tt.members)+1, e.registry.Len())
					time.Sleep(time.Nanosecond)
				}
				synctest.Wait()
				require.Equal(t, []*Worker{other}, e.registry.All())
				require.Contains(t, log.String(), tt.logged)
				_, failed := e.jobs.Status("w:1")
				require.False(t, failed)
			})
		})
	}
}

// workers.md sections 8 and 17: what guards hold for
func TestGuardsOfARemoval(t *testing.T) {
	tests := []struct {
		name   string
		guards func(w *Worker) []Guard // w is at revision 1
		gone   bool
		failed bool
	}{
		{"none", func(*Worker) []Guard { return nil }, true, false},
		{"this revision", func(w *Worker) []Guard { return []Guard{PinTo(w)} }, true, false},
		{"an older revision", func(w *Worker) []Guard { return []Guard{{ID: w.ID()}} }, false, false},
		{"any revision", func(w *Worker) []Guard { return []Guard{{ID: w.ID(), Any: true}} }, true, false},
		{"another worker", func(*Worker) []Guard { return []Guard{{ID: NewID(), Any: true}} }, false, false},
		{"another worker, and this revision", func(w *Worker) []Guard { return []Guard{{ID: NewID(), Any: true}, PinTo(w)} }, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil)
				defer e.Close()
				w := replaced(t, e.registry, add(t, e.registry, NewSpec("http://w:1")), nil)
				require.NoError(t, e.RemoveAt(t.Context(), "http://w:1", tt.guards(w)...))
				synctest.Wait()
				require.Equal(t, tt.gone, w.Draining(), "a guard that does not hold drains nothing")
				time.Sleep(5 * time.Second)
				synctest.Wait()
				require.Equal(t, tt.gone, e.registry.Len() == 0)
				_, failed := e.jobs.Status("w:1")
				require.Equal(t, tt.failed, failed)
			})
		})
	}
}

// workers.md section 17: without guards there must be somebody
func TestRemovalOfNobodyFails(t *testing.T) {
	e := enrollerOf(t, quick, nil)
	require.NoError(t, e.RemoveAt(t.Context(), "http://nobody:1"))
	eventually(t, "failed", func() bool { s, ok := e.jobs.Status("nobody:1"); return ok && s.Status == "failed" })
	s, _ := e.jobs.Status("nobody:1")
	require.Equal(t, "Worker http://nobody:1 not found", *s.Message)
	require.Equal(t, RemoveWorker, s.JobType)
}

// workers.md section 17: what is registered there at the end of the window is another registration, and stays
func TestReplacementDuringTheWindowStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil)
		defer e.Close()
		w := add(t, e.registry, NewSpec("http://w:1"))
		require.NoError(t, e.RemoveAt(t.Context(), "w:1", PinTo(w)))
		time.Sleep(2 * time.Second)
		require.True(t, w.Draining())
		now := replaced(t, e.registry, w, nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Same(t, now, e.registry.ByURL("http://w:1"))
		require.Equal(t, Ready, now.Status())
	})
}

// workers.md section 11: Remove with a window of 2 s, then an addition 10 ms later
func TestAdditionWaitsForTheRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil)
		defer e.Close()
		e.clients.http1.Transport = roundTrip(pretend)
		w := add(t, e.registry, settling("http://up:1", 2))
		require.NoError(t, e.RemoveAt(t.Context(), "up:1"))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, e.Upsert(t.Context(), NewSpec("http://up:1")))
		time.Sleep(1980 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []*Worker{w}, e.registry.All(), "it has not begun")
		time.Sleep(time.Second)
		synctest.Wait()
		now := e.registry.ByURL("http://up:1")
		require.NotEqual(t, w.ID(), now.ID())
		require.Equal(t, Ready, now.Status())
	})
}

// workers.md section 11: 250 additions of engines that are not there, and then a removal: it begins when the first probes have failed,
// and not after the startup time
func TestEnginesThatLoadDoNotHoldUpARemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEnroller(NewRegistry(), DefaultSettings(), DefaultStartup(), nil)
		defer e.Close()
		e.clients.http1.Transport = roundTrip(pretend)
		w := add(t, e.registry, NewSpec("http://w:1"))
		for i := range 250 {
			_, err := e.Reserve(NewSpec(fmt.Sprintf("http://hangs:%d", i+1)))
			require.NoError(t, err)
		}
		require.NoError(t, e.Remove(w.ID()))
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.True(t, w.Draining())
	})
}

// workers.md section 8; time is the test's own
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		e := NewEnroller(NewRegistry(), DefaultSettings(), quick, slog.New(slog.NewTextHandler(&log, nil)), WithJobs(JobSettings{1, 1}))
		defer e.Close()
		a, b := add(t, e.registry, NewSpec("http://w:1@0")), add(t, e.registry, NewSpec("http://w:1@1"))
		a.SetStatus(Failed)
		e.Retire(a, true)
		synctest.Wait()
		require.Equal(t, []*Worker{b}, e.registry.All(), "siblings stay")
		require.Contains(t, log.String(), "worker has failed, it is removed")

		b.SetStatus(Failed)
		over := make(chan struct{})
		require.NoError(t, e.jobs.Offer(jobAt("w:1", until(over))))
		e.Retire(b, false)
		synctest.Wait()
		require.Zero(t, e.jobs.pending, "a job is at the address: a later finding waits for its end")
		require.NoError(t, e.jobs.Offer(jobAt("full", until(over))))
		e.Retire(b, true)
		require.Contains(t, log.String(), "it cannot be removed yet")
		close(over)
		synctest.Wait()
		require.Equal(t, 1, e.registry.Len(), "that removal was lost")
		e.Retire(b, false)
		synctest.Wait()
		require.Zero(t, e.registry.Len(), "the next failed probe makes up for it")
		e.Retire(b, true)
		synctest.Wait()
		_, failed := e.jobs.Status("w:1")
		require.False(t, failed, "nothing is left to remove, which is no failure")
	})
}

// workers.md section 8: one that came back meanwhile as another revision stays
func TestRetirementIsPinned(t *testing.T) {
	e := enrollerOf(t, quick, nil)
	w := add(t, e.registry, NewSpec("http://w:1"))
	w.SetStatus(Failed)
	now := replaced(t, e.registry, w, nil)
	e.Retire(w, true)
	eventually(t, "over", func() bool { return !e.jobs.Busy("w:1") })
	require.Same(t, now, e.registry.ByURL("http://w:1"))
}

// workers.md section 5: the address of a URL
func TestAddressOf(t *testing.T) {
	for url, want := range map[string]string{
		"grpc://10.0.0.1:8080@2": "10.0.0.1:8080", "10.0.0.1:8080": "10.0.0.1:8080", "10.0.0.1:8080@1": "10.0.0.1:8080",
		"https://[fd00::1]:8000": "[fd00::1]:8000", "http://h": "h:80", "?": "?",
	} {
		require.Equal(t, want, addressOf(url), url)
	}
}

// A removal whose caller leaves before there is room does not happen.
func TestRemovalGivesUpWithItsContext(t *testing.T) {
	e := NewEnroller(NewRegistry(), DefaultSettings(), quick, nil, WithJobs(JobSettings{1, 1}))
	defer e.Close()
	over := make(chan struct{})
	defer close(over)
	w := add(t, e.registry, NewSpec("http://w:1"))
	require.NoError(t, e.jobs.Offer(jobAt("a", until(over))))
	require.NoError(t, e.jobs.Offer(jobAt("b", until(over))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.RemoveAt(ctx, "w:1"), context.Canceled)
	require.ErrorIs(t, e.Upsert(ctx, NewSpec("http://x:1")), context.Canceled)
	require.EqualError(t, e.Remove(w.ID()), "Job queue full: 1 jobs pending (capacity: 1)")
	_, err := e.Reserve(NewSpec("http://x:1"))
	require.EqualError(t, err, "Job queue full: 1 jobs pending (capacity: 1)")
	require.Empty(t, e.adding, "what was refused is not reserved")
	require.Empty(t, e.byID)
	require.True(t, w.Ready())
}
