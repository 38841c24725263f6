package workers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func jobsOf(t *testing.T, capacity, concurrency int) *Jobs {
	t.Helper()
	j := NewJobs(JobSettings{capacity, concurrency}, nil)
	t.Cleanup(j.Close)
	return j
}

// jobAt is a job that does what it is told at an address.
func jobAt(key string, run func(ctx context.Context, t *Turn) error) *Job {
	return &Job{Kind: AddWorker, Key: key, URL: "http://" + key, Limit: time.Minute, Run: run}
}

// until blocks a job until the channel is closed; it keeps its place.
func until(over <-chan struct{}) func(context.Context, *Turn) error {
	return func(context.Context, *Turn) error { <-over; return nil }
}

// workers.md section 11: one that waits for room gets in when there is some, and in order
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJobs(JobSettings{7, 1}, nil)
		defer j.Close()
		over := make(chan struct{})
		for i := range 8 {
			require.NoError(t, j.Offer(jobAt(fmt.Sprint(i), until(over))), "1 runs, 7 wait")
		}
		full := j.Offer(jobAt("8", until(over)))
		require.EqualError(t, full, "Job queue full: 7 jobs pending (capacity: 7)")
		_, known := j.Status("8")
		require.False(t, known, "what was refused has no status")

		var order []int
		var submitters sync.WaitGroup
		for i := range 3 {
			submitters.Go(func() {
				require.NoError(t, j.Submit(t.Context(), jobAt(fmt.Sprint("internal ", i), func(context.Context, *Turn) error {
					order = append(order, i) // one job at a time
					return nil
				})))
			})
			synctest.Wait()
		}
		_, known = j.Status("internal 0")
		require.False(t, known, "it waits for room")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, j.Submit(ctx, jobAt("gone", until(over))), context.Canceled)
		close(over)
		submitters.Wait()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, order)
		require.False(t, j.Busy("internal 2"))
	})
}

// workers.md section 11: at most one job of a key at a time, first come first served; those of others go on
func TestJobsOfOneKeyQueueUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJobs(DefaultJobSettings(), nil)
		defer j.Close()
		var seen lines
		note := func(s string) func(context.Context, *Turn) error {
			return func(ctx context.Context, t *Turn) error {
				_, _ = fmt.Fprintln(&seen, s, "begins")
				defer func() { _, _ = fmt.Fprintln(&seen, s, "ends") }()
				return t.Pause(ctx, 2*time.Second)
			}
		}
		require.NoError(t, j.Offer(jobAt("a:1", note("first"))))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, j.Offer(jobAt("a:1", note("second"))))
		s, ok := j.Status("a:1")
		require.True(t, ok)
		require.Equal(t, jobProcessing, s.Status, "that of the one that runs")
		ran := make(chan struct{})
		require.NoError(t, j.Submit(t.Context(), jobAt("b:1", func(context.Context, *Turn) error { close(ran); return nil })))
		<-ran
		require.Equal(t, "first begins\n", seen.String())
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.True(t, j.Busy("a:1"), "there is no gap between two jobs of a key")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.Equal(t, "first begins\nfirst ends\nsecond begins\nsecond ends\n", seen.String())
		_, ok = j.Status("a:1")
		require.False(t, ok, "what has succeeded has no status")
	})
}

// workers.md section 11
func TestTheNextJobTakesTheStatusOfItsKey(t *testing.T) {
	j := jobsOf(t, 10, 1)
	hold, first := make(chan struct{}), make(chan struct{})
	require.NoError(t, j.Offer(jobAt("a", func(ctx context.Context, turn *Turn) error { <-first; return nil })))
	other := jobAt("b", until(hold))
	require.NoError(t, j.Offer(other))
	next := jobAt("a", until(hold))
	next.Kind = RemoveWorker
	require.NoError(t, j.Offer(next))
	close(first)
	eventually(t, "the next one's status", func() bool { s, ok := j.Status("a"); require.True(t, ok); return s.JobType == RemoveWorker })
	s, _ := j.Status("a")
	require.Equal(t, jobPending, s.Status, "b has the only place")
	close(hold)
}

// workers.md section 11: who waits in a pause holds up nobody
func TestAJobThatWaitsHasNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJobs(JobSettings{1000, 2}, nil)
		defer j.Close()
		var working, most atomic.Int64
		work := func(context.Context) error {
			most.Store(max(most.Load(), working.Add(1)))
			defer working.Add(-1)
			time.Sleep(time.Second)
			return nil
		}
		for i := range 20 {
			require.NoError(t, j.Offer(jobAt(fmt.Sprint(i), func(ctx context.Context, turn *Turn) error {
				_ = work(ctx)
				if err := turn.Pause(ctx, 30*time.Second); err != nil {
					return err
				}
				return work(ctx)
			})))
		}
		begun := time.Now()
		over := make(chan time.Duration)
		require.NoError(t, j.Offer(jobAt("last", func(context.Context, *Turn) error { over <- time.Since(begun); return nil })))
		require.Equal(t, 10*time.Second, <-over, "ten rounds of two, and not after their pauses")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 2, most.Load(), "they wait for a place again after their pause")
		require.Zero(t, j.working)
		require.Empty(t, j.lines)
	})
}

// workers.md section 11; time is the test's own
func TestFailuresAreToldForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJobs(DefaultJobSettings(), nil)
		defer j.Close()
		begun := time.Now()
		require.NoError(t, j.Offer(jobAt("a", func(context.Context, *Turn) error { return errors.New("no good") })))
		time.Sleep(299 * time.Second)
		s, ok := j.Status("a")
		require.True(t, ok)
		require.Equal(t, JobStatus{AddWorker, "http://a", "failed", new("no good"), begun.Unix()}, s)
		require.False(t, j.Busy("a"))
		time.Sleep(61 * time.Second)
		synctest.Wait()
		_, ok = j.Status("a")
		require.False(t, ok)

		require.NoError(t, j.Offer(jobAt("b", func(context.Context, *Turn) error { return errors.New("no good") })))
		synctest.Wait()
		require.NoError(t, j.Offer(jobAt("b", func(context.Context, *Turn) error { return nil })))
		synctest.Wait()
		_, ok = j.Status("b")
		require.False(t, ok, "a job that succeeds takes the failure of its key along")
	})
}

// workers.md section 11: what runs or waits never expires
func TestRunningJobsAreToldOfHoweverLongTheyTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJobs(DefaultJobSettings(), nil)
		defer j.Close()
		long := jobAt("a", func(ctx context.Context, turn *Turn) error { return turn.Pause(ctx, time.Hour) })
		long.Limit = 2 * time.Hour
		require.NoError(t, j.Offer(long))
		require.NoError(t, j.Offer(jobAt("b", func(context.Context, *Turn) error { return errors.New("sweeps") })))
		time.Sleep(59 * time.Minute)
		s, ok := j.Status("a")
		require.True(t, ok)
		require.Equal(t, jobProcessing, s.Status)
		time.Sleep(2 * time.Minute)
	})
}

// workers.md section 11
func TestAJobThatFailsLeavesTheOthersAlone(t *testing.T) {
	tests := []struct {
		name string
		run  func(ctx context.Context, t *Turn) error
		want string
	}{
		{"it panics", func(context.Context, *Turn) error { panic("oops") }, "panic: oops"},
		{"it panics in its pause", func(ctx context.Context, turn *Turn) error { _ = turn.Pause(ctx, time.Second); panic("late") }, "panic: late"},
		{"it takes too long", func(ctx context.Context, turn *Turn) error { return turn.Pause(ctx, time.Hour) }, "AddWorker was not over within 1m0s: context deadline exceeded"},
		{"it takes too long at work", func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return errors.New("gave up") }, "AddWorker was not over within 1m0s: gave up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				j := NewJobs(JobSettings{10, 1}, slog.New(slog.NewTextHandler(&log, nil)))
				defer j.Close()
				job := jobAt("a", tt.run)
				told := make(chan error, 1)
				job.Done = func(err error) { told <- err }
				require.NoError(t, j.Offer(job))
				require.EqualError(t, <-told, tt.want)
				s, ok := j.Status("a")
				require.True(t, ok)
				require.Equal(t, tt.want, *s.Message)
				require.Equal(t, bytes.Contains([]byte(tt.want), []byte("panic")), bytes.Contains([]byte(log.String()), []byte("jobs_test.go")), "a panic is logged with its stack")
				require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "telemetry.md section 7.6: %s", log.String())
				require.Contains(t, log.String(), "job=AddWorker worker=http://a ")
				after := make(chan struct{})
				require.NoError(t, j.Offer(jobAt("b", func(context.Context, *Turn) error { close(after); return nil })))
				<-after
				require.Zero(t, j.pending)
			})
		})
	}
}

// telemetry.md section 7.6: a failure is heard of once, from the queue or from the job itself; what the end of the gateway cuts is none.
func TestAFailureIsLoggedOnce(t *testing.T) {
	fails := func(context.Context, *Turn) error { return errors.New("no luck") }
	cut := func(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name  string
		run   func(context.Context, *Turn) error
		tells bool
		want  string
	}{
		{"a job that fails", fails, false, `level=ERROR msg="a job failed" job=AddWorker worker=http://a error="no luck"`},
		{"a job that tells of it", fails, true, ""},
		{"a job that goes well", func(context.Context, *Turn) error { return nil }, false, ""},
		{"a job that runs when the gateway stops", cut, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				j := NewJobs(JobSettings{10, 1}, slog.New(slog.NewTextHandler(&log, nil)))
				job := jobAt("a", tt.run)
				job.Tells = tt.tells
				require.NoError(t, j.Offer(job))
				synctest.Wait()
				j.Close()
				_, line, _ := strings.Cut(strings.TrimSpace(log.String()), " ")
				require.Equal(t, tt.want, line)
			})
		})
	}
}

// workers.md section 11: shutdown
func TestCloseEndsWhatRunsAndDropsTheRest(t *testing.T) {
	j := NewJobs(JobSettings{2, 1}, nil)
	begun := make(chan struct{})
	require.NoError(t, j.Offer(jobAt("runs", func(ctx context.Context, _ *Turn) error { close(begun); <-ctx.Done(); return ctx.Err() })))
	<-begun
	var told atomic.Int64
	for _, key := range []string{"runs", "waits"} {
		job := jobAt(key, func(context.Context, *Turn) error { panic("it must not run") })
		job.Done = func(err error) { require.ErrorIs(t, err, ErrClosed); told.Add(1) }
		require.NoError(t, j.Offer(job))
	}
	blocked := make(chan error)
	go func() { blocked <- j.Submit(context.Background(), jobAt("blocked", nil)) }()
	eventually(t, "a submitter waits", func() bool { j.mu.Lock(); defer j.mu.Unlock(); return len(j.blocked) == 1 })
	j.Close()
	require.ErrorIs(t, <-blocked, ErrClosed)
	require.EqualValues(t, 2, told.Load())
	require.ErrorIs(t, j.Offer(jobAt("late", nil)), ErrClosed)
	require.ErrorIs(t, j.Submit(t.Context(), jobAt("late", nil)), ErrClosed)
	_, ok := j.Status("waits")
	require.False(t, ok)
}

// workers.md section 11: ten thousand jobs in line are no ten thousand goroutines, and each runs once
func TestManyJobs(t *testing.T) {
	j := jobsOf(t, 20_000, 16)
	gate := make(chan struct{})
	var ran, now, most atomic.Int64
	for i := range 10_000 {
		require.NoError(t, j.Offer(jobAt(fmt.Sprint(i%2500), func(ctx context.Context, turn *Turn) error {
			<-gate
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			ran.Add(1)
			return turn.Pause(ctx, time.Nanosecond)
		})))
	}
	j.mu.Lock()
	require.Equal(t, 16, j.working)
	require.Equal(t, 10_000-16, j.pending)
	j.mu.Unlock()
	close(gate)
	eventually(t, "all have run", func() bool { j.mu.Lock(); defer j.mu.Unlock(); return len(j.lines) == 0 })
	require.EqualValues(t, 10_000, ran.Load())
	require.Zero(t, j.pending)
}

// A caller that has given up takes its job along, if it has not begun.
func TestWithdraw(t *testing.T) {
	j := jobsOf(t, 1, 1)
	over := make(chan struct{})
	running := jobAt("a", until(over))
	require.NoError(t, j.Offer(running))
	waiting := jobAt("b", func(context.Context, *Turn) error { panic("it must not run") })
	told := make(chan error, 1)
	waiting.Done = func(err error) { told <- err }
	require.NoError(t, j.Offer(waiting))
	submitted := make(chan error)
	go func() { submitted <- j.Submit(context.Background(), jobAt("c", until(over))) }()
	eventually(t, "a submitter waits", func() bool { j.mu.Lock(); defer j.mu.Unlock(); return len(j.blocked) == 1 })
	require.True(t, j.Withdraw(waiting, context.Canceled))
	require.ErrorIs(t, <-told, context.Canceled)
	require.NoError(t, <-submitted, "there is room now")
	require.False(t, j.Withdraw(waiting, context.Canceled))
	require.False(t, j.Withdraw(running, context.Canceled), "it has begun")
	require.False(t, j.Busy("b"))
	close(over)
}

func BenchmarkJobs(b *testing.B) {
	j := NewJobs(JobSettings{1 << 20, 200}, nil)
	defer j.Close()
	var all sync.WaitGroup
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		all.Add(1)
		_ = j.Submit(context.Background(), jobAt(fmt.Sprint(i%1000), func(context.Context, *Turn) error { all.Done(); return nil }))
	}
	all.Wait()
}
