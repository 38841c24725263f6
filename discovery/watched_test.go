package discovery

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watched is a source that is being watched, and what it has told.
type watched struct {
	*Kubernetes
	t   testing.TB
	log *logBook

	mu      sync.Mutex
	changes []Change
	onTold  func(Change)
}

func (w *watched) Changed(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, c)
	if w.onTold != nil {
		w.onTold(c)
	}
}

// told is what it has told since it was asked last, once it has told something: what is wanted is shown before it is told.
func (w *watched) told() []Change {
	w.t.Helper()
	var told []Change
	w.until(func() bool { told = w.news(); return len(told) > 0 }, "something is told")
	return told
}

// news is what it has told since it was asked last, if anything.
func (w *watched) news() []Change {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.changes
	w.changes = nil
	return told
}

// now are the addresses that are wanted, sorted; nil before the first list.
func (w *watched) now() []string {
	wanted, ok := w.Wanted()
	if !ok {
		return nil
	}
	all := addresses(wanted)
	slices.Sort(all)
	return all
}

// becomes waits until these addresses are wanted.
func (w *watched) becomes(addresses ...string) {
	w.t.Helper()
	w.until(func() bool { return w.now() != nil && slices.Equal(addresses, w.now()) }, "%v are wanted, not %v", w.now(), addresses)
}

// until waits until something holds.
func (w *watched) until(holds func() bool, message string, a ...any) {
	w.t.Helper()
	require.Eventually(w.t, holds, 20*time.Second, time.Millisecond, append([]any{message}, a...)...)
}

// logBook keeps what is logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newLog() *logBook { return &logBook{} }

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// times is how many lines have this in them.
func (l *logBook) times(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}
