package telemetry

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// fileQueueLines is how many lines may wait for the disk before new ones are dropped.
const fileQueueLines = 128_000

// fileBatchBytes is how much is gathered for one write while more lines wait.
const fileBatchBytes = 64 << 10

// dayFile writes lines to dir/smg.YYYY-MM-DD, a new file for each UTC day, from a goroutine of its own: a slow disk
// costs lines, never a request's time. It never deletes a file.
type dayFile struct {
	dir     string
	dropped atomic.Uint64
	done    chan struct{} // closed when the goroutine has ended
	err     error         // the last one of writing; read after done

	mu     sync.Mutex // guards closed, and sending against closing
	closed bool
	queue  chan fileLine

	day   int64 // since the epoch, of the open file; this and the fields below are the goroutine's alone
	file  *os.File
	batch []byte // lines that are written with one call
	lines uint64 // in batch
}

type fileLine struct {
	day  int64
	text []byte
}

func dayOf(t time.Time) int64 {
	const day = 24 * 60 * 60
	return t.Unix() / day
}

// openDayFile opens the file of the given day at once, so that a directory that cannot be written stops the start.
func openDayFile(dir string, now time.Time, queue int) (*dayFile, error) {
	f, err := newDayFile(dir, now, queue)
	if err == nil {
		go f.run()
	}
	return f, err
}

func newDayFile(dir string, now time.Time, queue int) (*dayFile, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cannot create log directory: %w", err)
	}
	f := &dayFile{dir: dir, done: make(chan struct{}), queue: make(chan fileLine, queue)}
	if err := f.open(dayOf(now)); err != nil {
		return nil, fmt.Errorf("cannot open log file: %w", err)
	}
	return f, nil
}

// open leaves the old file in use if the new one cannot be opened.
func (f *dayFile) open(day int64) error {
	name := "smg." + time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly)
	next, err := os.OpenFile(filepath.Join(f.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if f.file != nil {
		f.flush()
		_ = f.file.Close()
	}
	f.day, f.file = day, next
	return nil
}

// enqueue takes a copy of line, or counts it as dropped; it never waits.
func (f *dayFile) enqueue(at time.Time, line []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || len(f.queue) == cap(f.queue) { // looked at first: a line that is dropped is not copied
		f.dropped.Add(1)
		return
	}
	f.queue <- fileLine{day: dayOf(at), text: bytes.Clone(line)} // has room: sending is under the lock
}

func (f *dayFile) run() {
	defer close(f.done)
	for line := range f.queue {
		f.add(line)
		if len(f.queue) == 0 || len(f.batch) >= fileBatchBytes {
			f.flush()
		}
	}
	f.flush()
	if err := f.file.Close(); f.err == nil {
		f.err = err
	}
}

// add begins a new file when a line of a later day comes. A straggler of the day before goes to the file that is open.
func (f *dayFile) add(line fileLine) {
	if line.day > f.day {
		if err := f.open(line.day); err != nil {
			f.err = err // tried again at the next line; until then the old file is better than nothing
		}
	}
	f.batch = append(f.batch, line.text...)
	f.lines++
}

// flush gives a batch that the disk does not take up, and counts its lines; the next one may find room again.
func (f *dayFile) flush() {
	if _, err := f.file.Write(f.batch); err != nil {
		f.err = err
		f.dropped.Add(f.lines)
	}
	f.batch, f.lines = f.batch[:0], 0
}

// close writes what is queued and waits for it. A second call waits too.
func (f *dayFile) close() error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.queue)
	}
	f.mu.Unlock()
	<-f.done
	return f.err
}
