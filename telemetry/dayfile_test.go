package telemetry

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func readDir(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all.WriteString(e.Name() + ":\n" + string(b))
	}
	return all.String()
}

// telemetry.md, section 7.1
func TestLogFileIsOneForEachDayInUTC(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "if", "missing")
	east := time.FixedZone("", 5*3600)
	first := time.Date(2026, 9, 25, 1, 0, 0, 0, east) // still the 24th in UTC
	f, err := openDayFile(dir, first, 10)
	require.NoError(t, err)
	f.enqueue(first, []byte("one\n"))
	f.enqueue(first.Add(4*time.Hour), []byte("two\n"))
	f.enqueue(first.Add(time.Minute), []byte("a straggler\n"))
	f.enqueue(first.Add(72*time.Hour), []byte("three\n"))
	require.NoError(t, f.close())
	require.NoError(t, f.close(), "a second close waits and does nothing")
	require.Equal(t, "smg.2026-09-24:\none\nsmg.2026-09-25:\ntwo\na straggler\nsmg.2026-09-27:\nthree\n", readDir(t, dir))
	require.Zero(t, f.dropped.Load())
}

func TestLogFileIsAppendedTo(t *testing.T) {
	dir := t.TempDir()
	now := time.Date(2026, 9, 24, 0, 0, 0, 0, time.UTC)
	for _, line := range []string{"first run\n", "second run\n"} {
		f, err := openDayFile(dir, now, 10)
		require.NoError(t, err)
		f.enqueue(now, []byte(line))
		require.NoError(t, f.close())
	}
	require.Equal(t, "smg.2026-09-24:\nfirst run\nsecond run\n", readDir(t, dir))
}

// telemetry.md, section 7.1
func TestFileLinesThatFindNoRoomAreDroppedAndCounted(t *testing.T) {
	now := time.Date(2026, 9, 24, 0, 0, 0, 0, time.UTC)
	f, err := newDayFile(t.TempDir(), now, 2) // its goroutine does not run yet: the disk is stuck
	require.NoError(t, err)
	line := []byte("0\n")
	for i := range 5 {
		line[0] = byte('0' + i) // the queue must have a copy
		f.enqueue(now, line)
	}
	require.EqualValues(t, 3, f.dropped.Load())
	go f.run()
	require.NoError(t, f.close())
	require.Equal(t, "smg.2026-09-24:\n0\n1\n", readDir(t, f.dir))

	f.enqueue(now, line)
	require.EqualValues(t, 4, f.dropped.Load(), "after closing, lines are lost, and that is counted too")
}

func TestFileLinesThatTheDiskRefusesAreCounted(t *testing.T) {
	now := time.Date(2026, 9, 24, 0, 0, 0, 0, time.UTC)
	f, err := newDayFile(t.TempDir(), now, 10)
	require.NoError(t, err)
	require.NoError(t, f.file.Close()) // stands for a disk that fails
	for range 3 {
		f.enqueue(now, []byte("x\n"))
	}
	go f.run()
	require.Error(t, f.close())
	require.EqualValues(t, 3, f.dropped.Load())
}

// telemetry.md, section 7.1
func TestLogDirectoryThatCannotBeMadeStopsTheStart(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(inTheWay, nil, 0o600))
	dir := filepath.Join(inTheWay, "logs")
	_, err := NewLogger(LogOptions{Dir: dir, Env: func(string) string { return "" }})
	require.ErrorContains(t, err, "cannot create log directory")
	require.ErrorContains(t, err, inTheWay)
}

// telemetry.md, section 7.1
func TestLogFileHoldsTheLinesOfStdout(t *testing.T) {
	l, out := logTo(t, LogOptions{Dir: t.TempDir(), JSON: true})
	for range 100 {
		l.Target("smg").LogAttrs(t.Context(), slog.LevelInfo, "x", slog.Int("n", 1))
	}
	require.NoError(t, l.Close())
	_, text, _ := strings.Cut(readDir(t, l.file.dir), ":\n")
	require.Equal(t, out.String(), text)
}
