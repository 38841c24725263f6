package stages

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// waitingBytes is how many bytes of lines may wait for the disk before new lines are dropped.
const waitingBytes = 8 << 20

// Recorder writes the lines of [Record] to a file, in the background. It is a dependency of that stage.
type Recorder struct {
	path    string
	began   time.Time
	salt    [32]byte      // makes hashes of this recording; never written
	unseen  atomic.Uint64 // blocks that nobody has seen
	metrics *telemetry.RecordMetrics
	log     *slog.Logger
	wake    chan struct{}

	mu      sync.Mutex // guards what is below; never held while the disk works
	waiting []byte
	lines   int // in waiting
	closed  bool

	writing sync.Mutex // held while the disk works; guards what is below
	file    *os.File
	spare   []byte
	failing bool
	counts  struct{ written, failed int }

	dropped atomic.Int64
}

var _ pipeline.Dependency = (*Recorder)(nil)

// NewRecorder makes a recorder for a file. Nothing is opened yet.
func NewRecorder(path string, m *telemetry.RecordMetrics, log *slog.Logger) *Recorder {
	r := &Recorder{path: path, began: time.Now(), metrics: m, log: log, wake: make(chan struct{}, 1)}
	_, _ = rand.Read(r.salt[:]) // never fails
	return r
}

// Open opens the file, made if it is missing, to append to it. The error is that of the file, or says that it holds something else than
// a recording. Without Open every line is dropped. Whoever opens it calls Close.
func (r *Recorder) Open() error {
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, os.ErrPermission) {
		file, err = os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0o600) // one may be allowed to write alone
	}
	if err != nil {
		return err
	}
	if err := resume(file); err != nil {
		_ = file.Close()
		return fmt.Errorf("%s %w", r.path, err)
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	r.file = file
	return nil
}

// resume looks whether a file can be gone on with, and ends the line that a crash has left in it.
func resume(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	var first, last [1]byte
	if _, err := file.ReadAt(first[:], 0); err != nil {
		return nil //nolint:nilerr // it may be written and not read
	}
	if first[0] != '{' {
		return errors.New("is there already, and is no recording")
	}
	if _, err := file.ReadAt(last[:], info.Size()-1); err == nil && last[0] != '\n' {
		_, err = io.WriteString(file, "\n")
		return err
	}
	return nil
}

// Name is part of [pipeline.Dependency].
func (*Recorder) Name() string { return "recorder" }

// Run writes what comes until ctx ends.
func (r *Recorder) Run(ctx context.Context, ready func()) error {
	ready()
	for {
		select {
		case <-r.wake:
			r.flush()
		case <-ctx.Done():
			r.flush()
			return nil
		}
	}
}

// add takes a line, or counts it as dropped; it never waits for the disk.
func (r *Recorder) add(line *RequestRecord) {
	text, err := json.Marshal(line)
	if err != nil {
		return // numbers and strings alone: cannot fail
	}
	r.mu.Lock()
	fits := !r.closed && len(r.waiting)+len(text) < waitingBytes
	if fits {
		r.waiting = append(append(r.waiting, text...), '\n')
		r.lines++
	}
	r.mu.Unlock()
	if !fits {
		r.dropped.Add(1)
		r.metrics.Dropped.Inc()
		return
	}
	select {
	case r.wake <- struct{}{}:
	default: // it will look
	}
}

// flush writes what waits.
func (r *Recorder) flush() {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	batch, lines := r.waiting, r.lines
	r.waiting, r.lines = r.spare[:0], 0
	r.mu.Unlock()
	r.spare = batch
	if lines == 0 {
		return
	}
	written, err := r.write(batch, lines)
	r.counts.written += written
	r.counts.failed += lines - written
	r.metrics.Written.Add(float64(written))
	r.metrics.Failed.Add(float64(lines - written))
	if err != nil && !r.failing { // once until it works again: a full disk must not fill the log as well
		r.log.Error("requests cannot be recorded", "file", r.path, "error", err)
	}
	r.failing = err != nil
}

// write gives a batch that the disk does not take up, but for the whole lines that it took.
func (r *Recorder) write(batch []byte, lines int) (written int, err error) {
	if r.file == nil {
		return 0, errors.New("the file is not open")
	}
	n, err := r.file.Write(batch)
	if err == nil {
		return lines, nil
	}
	whole := bytes.LastIndexByte(batch[:n], '\n') + 1
	r.takeBack(n - whole)
	return bytes.Count(batch[:whole], []byte{'\n'}), err
}

// takeBack cuts the beginning of a line off that the disk did not take whole, so that the next one does not go on with it.
func (r *Recorder) takeBack(excess int) {
	if info, err := r.file.Stat(); err == nil && excess > 0 && info.Mode().IsRegular() {
		_ = r.file.Truncate(info.Size() - int64(excess))
	}
}

// Close writes what waits, closes the file and logs what became of the recording. Lines that come later are dropped. Closing again, or
// what was not opened, does nothing.
func (r *Recorder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.flush()
	r.writing.Lock()
	defer r.writing.Unlock()
	if r.file == nil {
		return nil
	}
	level, dropped := slog.LevelInfo, r.dropped.Load()
	if dropped > 0 || r.counts.failed > 0 {
		level = slog.LevelWarn
	}
	r.log.Log(context.Background(), level, "recording ended", "file", r.path,
		"requests", r.counts.written, "dropped", dropped, "failed", r.counts.failed)
	err := r.file.Close()
	r.file = nil
	return err
}
