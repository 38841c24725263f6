package discovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/smg-go/smg/telemetry"
	"github.com/smg-go/smg/workers"
)

// FileSettings say how a manifest is read.
type FileSettings struct {
	Check time.Duration  // from one reading to the next, whether or not the file has changed; above 0
	Look  time.Duration  // how often it is looked whether the file has changed; it is read when it has stopped to. Above 0
	Roles []workers.Type // that the gateway's routing uses; none: regular alone

	Metrics *telemetry.DiscoveryMetrics // nil: nothing is counted
	Log     *slog.Logger                // nil: nothing is logged
}

// DefaultFileSettings are those of a gateway without flags.
func DefaultFileSettings() FileSettings {
	return FileSettings{Check: 30 * time.Second, Look: 50 * time.Millisecond}
}

// File is a [Source] that reads a manifest, JSON or YAML:
//
//	{"version": 1, "workers": [{"url": "http://10.0.0.5:8000", "id": "a", "model_id": "m"}]}
//
// An entry has the names url (required), id (the URL unless given), worker_type, bootstrap_port, model_id, kv_connector, kv_role and
// kv_engine_id. If any of it changes, the worker is registered anew. A file that is missing or wrong in any way leaves the last good
// manifest in force. One that would remove more than half of the workers is put in force when it has not changed until the next
// regular reading.
//
// The file is looked at by its name: it may be replaced by another one, and it or a directory on the way may be a link, as those of a
// mounted ConfigMap are.
type File struct {
	path     string
	settings FileSettings
	manifest atomic.Pointer[[]Wanted] // nil: none has been good yet

	// Of the goroutine that watches.
	doubtful string    // the content of a manifest that would remove too many, until it is confirmed; "" for none
	since    time.Time // when that was first read
}

// maxManifest is how long a manifest may be, in bytes: a wrong file must not cost the gateway its memory.
const maxManifest = 16 << 20

var _ Source = (*File)(nil)

// NewFile makes the source of a manifest. The file need not be there yet.
func NewFile(path string, s FileSettings) *File {
	if len(s.Roles) == 0 {
		s.Roles = []workers.Type{workers.Regular}
	}
	if s.Metrics == nil {
		s.Metrics = telemetry.NewMetrics(telemetry.Options{}).Discovery // whose registry nobody reads
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	return &File{path: path, settings: s}
}

// Name is "file".
func (*File) Name() string { return "file" }

// Wanted are the workers of the manifest that is in force.
func (f *File) Wanted() ([]Wanted, bool) {
	m := f.manifest.Load()
	if m == nil {
		return nil, false
	}
	return *m, true
}

// Watch reads the file, again when it changes, and again from time to time, until ctx ends.
func (f *File) Watch(ctx context.Context, w Watcher) error {
	f.settings.Log.Info(fmt.Sprintf("Starting discovery from manifest %s, read on change and every %s", f.path, f.settings.Check))
	look := time.NewTicker(f.settings.Look)
	defer look.Stop()
	read, seen := f.stamp(), f.stamp()
	f.read(w)
	check := time.Now().Add(f.settings.Check)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		now := f.stamp()
		settled := now.equal(seen) // a file that is being written is left alone until that is over
		seen = now
		if due := !time.Now().Before(check); due || settled && !now.equal(read) {
			read = now
			f.read(w)
			check = time.Now().Add(f.settings.Check)
		}
	}
}

// stamp is what tells that a file has changed.
type stamp struct{ info fs.FileInfo }

func (f *File) stamp() stamp {
	info, err := os.Stat(f.path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

func (s stamp) equal(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == nil && o.info == nil
	}
	return s.info.Size() == o.info.Size() && s.info.ModTime().Equal(o.info.ModTime()) && os.SameFile(s.info, o.info)
}

// read puts the manifest in force that is there now, and tells the watcher: also if nothing has changed, so that workers come back
// which somebody has removed.
func (f *File) read(w Watcher) {
	data, err := f.load()
	var now []Wanted
	if err == nil {
		now, err = readManifest(data, f.settings.Roles)
	}
	was, ok := f.Wanted()
	if err != nil {
		f.keep(err, ok)
		f.doubtful = ""
		return
	}
	change := difference(was, now)
	if leaving := departures(was, now); 2*leaving > len(was) && !f.confirmed(string(data)) {
		f.settings.Log.Warn(fmt.Sprintf("Discovery manifest %s would remove %d of %d worker(s); that is done if it still says so in %s",
			f.path, leaving, len(was), f.settings.Check))
		return
	}
	f.doubtful = ""
	f.manifest.Store(&now)
	if change.Alters || !ok {
		f.settings.Log.Info(fmt.Sprintf("Discovery manifest %s lists %d worker(s)", f.path, len(now)))
	}
	w.Changed(change)
}

// confirmed tells whether a manifest has said the same for as long as it takes from one regular reading to the next.
func (f *File) confirmed(content string) bool {
	if f.doubtful != content {
		f.doubtful, f.since = content, time.Now()
		return false
	}
	return time.Since(f.since) >= f.settings.Check
}

// keep tells that a manifest is of no use.
func (f *File) keep(err error, ok bool) {
	f.settings.Metrics.SnapshotErrors.Inc()
	consequence := "no workers discovered yet"
	if ok {
		consequence = "keeping the last good manifest"
	}
	f.settings.Log.Warn(fmt.Sprintf("Discovery manifest %s cannot be used: %s; %s", f.path, err, consequence))
}

func (f *File) load() ([]byte, error) {
	file, err := os.Open(f.path)
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err // which does not repeat the path
		}
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxManifest+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxManifest:
		return nil, fmt.Errorf("it is longer than %d MiB", maxManifest>>20)
	}
	return data, nil
}

// difference is what has changed from one manifest to the next.
func difference(was, now []Wanted) Change {
	gone := make(map[Claim]bool, len(was))
	for _, w := range was {
		gone[w.Claim] = true
	}
	var c Change
	for _, w := range now {
		if !gone[w.Claim] {
			c.Claimed = append(c.Claimed, w.Claim)
		}
		delete(gone, w.Claim)
	}
	for _, w := range was {
		if gone[w.Claim] {
			c.Withdrawn = append(c.Withdrawn, w.Claim)
		}
	}
	c.Alters = len(c.Claimed)+len(c.Withdrawn) > 0
	return c
}

// departures are the workers whose addresses a manifest does not list any more.
func departures(was, now []Wanted) (n int) {
	listed := make(map[string]bool, len(now))
	for _, w := range now {
		listed[w.Address] = true
	}
	for _, w := range was {
		if !listed[w.Address] {
			n++
		}
	}
	return n
}
