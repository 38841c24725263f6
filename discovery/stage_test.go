package discovery

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// puppet is a source whose wanted workers a test sets.
type puppet struct {
	name string

	mu      sync.Mutex
	wanted  []Wanted
	ok      bool
	watcher Watcher
	broken  chan error // ends Watch
	panics  bool
}

func (s *puppet) Name() string { return s.name }

func (s *puppet) Watch(ctx context.Context, w Watcher) error {
	s.mu.Lock()
	s.watcher = w
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.broken:
		if s.panics {
			panic(err)
		}
		return err
	}
}

func (s *puppet) Wanted() ([]Wanted, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted, s.ok
}

// set makes other workers wanted, written "address=owner", and tells of the change.
func (s *puppet) set(texts ...string) {
	s.mu.Lock()
	was := s.wanted
	s.wanted, s.ok = nil, true
	for _, text := range texts {
		s.wanted = append(s.wanted, want(text))
	}
	c, w := difference(was, s.wanted), s.watcher
	s.mu.Unlock()
	w.Changed(c)
}

// prompt is an enroller whose engines need not be asked: a registration takes as long as the test says, and a removal is a real one.
type prompt struct {
	*workers.Enroller
	registry *workers.Registry
	settings workers.Settings
	takes    time.Duration
}

func (p *prompt) Upsert(ctx context.Context, spec workers.Spec) error {
	return p.Jobs().Submit(ctx, &workers.Job{
		Kind: workers.AddWorker, Key: spec.URL, URL: spec.URL, Limit: time.Hour,
		Run: func(ctx context.Context, t *workers.Turn) error {
			if err := t.Pause(ctx, p.takes); err != nil {
				return err
			}
			return p.enter(spec)
		},
	})
}

func (p *prompt) enter(spec workers.Spec) error {
	if !strings.Contains(spec.URL, "://") {
		spec.URL = "http://" + spec.URL
	}
	w, err := workers.New(spec, p.settings)
	if err != nil {
		return err
	}
	if err := p.registry.Add(w); err != nil {
		return err
	}
	w.SetStatus(workers.Ready)
	return nil
}

// stage is a discovery at work in a bubble of its own time.
type stage struct {
	*puppet
	*prompt
	metrics *telemetry.Metrics
	log     *journal
	passes  atomic.Int32
	began   time.Time
	dialect *dialect
	ended   chan error
	stop    context.CancelFunc
}

// onStage runs a test with a discovery whose source is a puppet, in a bubble; the drain lasts 5 s.
func onStage(t *testing.T, test func(t *testing.T, s *stage), more ...func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		registry, settings := workers.NewRegistry(), workers.DefaultSettings()
		s := &stage{
			puppet:  &puppet{name: kubernetesSource, broken: make(chan error)},
			prompt:  &prompt{registry: registry, settings: settings},
			metrics: telemetry.NewMetrics(telemetry.Options{}), log: &journal{}, ended: make(chan error, 1),
		}
		for _, m := range more {
			m(s)
		}
		if s.prompt.Enroller == nil {
			s.prompt.Enroller = workers.NewEnroller(registry, settings, workers.DefaultStartup(), s.log.logger())
		}
		defer s.prompt.Close()
		config := DefaultSettings()
		config.Metrics, config.Log, config.OnPass = s.metrics.Discovery, s.log.logger(), func() { s.passes.Add(1) }
		d := newDiscovery(s.puppet, registry, s.prompt, config)
		s.dialect = &d.dialect
		ctx, cancel := context.WithCancel(t.Context())
		s.stop = cancel
		defer cancel()
		readied := false
		go func() { s.ended <- d.Run(ctx, func() { readied = true }) }()
		synctest.Wait()
		require.True(t, readied, "a source that cannot be reached keeps nobody waiting")
		s.began = time.Now()
		test(t, s)
	})
}

// until lets the time pass up to so long after the start, and all that is due then happen.
func (s *stage) until(after time.Duration) {
	time.Sleep(time.Until(s.began.Add(after))) // in a bubble: the clock of this test alone
	synctest.Wait()
}

// fleet is every registered worker: "address owner status", and "cordoned" if it is.
func (s *stage) fleet() (all []string) {
	for _, w := range s.registry.All() {
		claim, _ := s.dialect.claimOf(w)
		line := fmt.Sprintf("%s %s %s", claim.Address, claim.Owner, w.Status())
		if w.Cordoned() && w.Ready() {
			line += " cordoned"
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// count is how often a text is in the log.
func (j *journal) count(text string) int { return strings.Count(j.String(), text) }

// busy gives the job queue so many jobs of somebody else's, of a second each.
func (s *stage) busy(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		go func() {
			_ = s.Jobs().Submit(t.Context(), &workers.Job{
				Kind: workers.UpdateWorker, Key: fmt.Sprint("other-", i), Limit: time.Hour,
				Run: func(ctx context.Context, _ *workers.Turn) error { return blocked(ctx, time.Second) },
			})
		}()
	}
	synctest.Wait()
}

// blocked keeps the place of a job for so long.
func blocked(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// listened waits until the source is watched.
func (p *puppet) listened(t *testing.T) {
	t.Helper()
	eventually(t, "watched", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.watcher != nil
	})
}
