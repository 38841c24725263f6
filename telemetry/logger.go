package telemetry

import (
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
)

// Target is the target of records that belong to no part of smg in particular.
const Target = "smg"

// ColorMode says whether text lines on standard output are coloured. Files never are.
type ColorMode int

// The colour modes.
const (
	ColorAuto   ColorMode = iota // on a terminal, unless NO_COLOR is set
	ColorNever                   //
	ColorAlways                  //
)

// LogOptions are the settings of [NewLogger].
type LogOptions struct {
	Level  slog.Level          // from here on smg's own targets are written, unless SMG_LOG or RUST_LOG replaces the filter
	JSON   bool                // one JSON object a line instead of text
	Dir    string              // also write to files in this directory, one a day (UTC); "" = none. Created if missing
	Stdout io.Writer           // nil = os.Stdout
	Color  ColorMode           //
	Env    func(string) string // looks up SMG_LOG, RUST_LOG and NO_COLOR; nil = os.Getenv
}

// Log is the outputs of a process's log records. Its methods may be called at the same time.
type Log struct {
	json  bool
	color bool

	mu     sync.Mutex // one line at a time on stdout
	stdout io.Writer
	lost   atomic.Uint64 // lines that stdout did not take
	file   *dayFile      // nil without a directory

	levelsMu sync.Mutex
	filter   Filter
	levels   map[string]*slog.LevelVar // by target
}

// NewLogger opens the outputs. It fails, naming path and error, if the directory or today's file in it cannot be made. A
// filter in the environment that does not parse is ignored with one warning.
func NewLogger(o LogOptions) (*Log, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	filter, complaints := filterFromEnv(o.Env, o.Level)
	l := &Log{
		json: o.JSON, color: !o.JSON && wantColor(o), stdout: o.Stdout,
		filter: filter, levels: make(map[string]*slog.LevelVar),
	}
	if o.Dir != "" {
		file, err := openDayFile(o.Dir, time.Now(), fileQueueLines)
		if err != nil {
			return nil, err
		}
		l.file = file
	}
	for _, c := range complaints {
		l.Target("smg::telemetry").Warn(c)
	}
	return l, nil
}

func wantColor(o LogOptions) bool {
	if o.Color != ColorAuto {
		return o.Color == ColorAlways
	}
	f, ok := o.Stdout.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && o.Env("NO_COLOR") == ""
}

// Target returns a logger whose records have the given target: "smg", "smg::request", or a library's name.
func (l *Log) Target(target string) *slog.Logger {
	return slog.New(&Handler{log: l, target: target, level: l.levelOf(target)})
}

func (l *Log) levelOf(target string) *slog.LevelVar {
	l.levelsMu.Lock()
	defer l.levelsMu.Unlock()
	v := l.levels[target]
	if v == nil {
		v = new(slog.LevelVar)
		v.Set(l.filter.Level(target))
		l.levels[target] = v
	}
	return v
}

// SetFilter changes what is written from now on, for loggers that exist already too.
func (l *Log) SetFilter(f Filter) {
	l.levelsMu.Lock()
	defer l.levelsMu.Unlock()
	l.filter = f
	for target, v := range l.levels {
		v.Set(f.Level(target))
	}
}

// Dropped counts the lines that were lost, by output: stdout did not take them, or the queue of the file was full.
func (l *Log) Dropped() (stdout, file uint64) {
	if l.file != nil {
		file = l.file.dropped.Load()
	}
	return l.lost.Load(), file
}

// Close writes out what is queued for the file. Later records go to stdout only, and count as dropped for the file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.close()
}

func (l *Log) write(at time.Time, line []byte) {
	if l.file != nil {
		l.file.enqueue(at, line)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.color {
		line = colored(line)
	}
	if _, err := l.stdout.Write(line); err != nil {
		l.lost.Add(1)
	}
}

// colored dims the time and colours the level, whose places in a text line are fixed.
func colored(line []byte) []byte {
	const dim, reset = "\x1b[2m", "\x1b[0m"
	from := len(timeLayout) + 1
	if len(line) < from+levelWidth || line[len(timeLayout)-1] != 'Z' {
		return line // a record without a time
	}
	level := line[from : from+levelWidth]
	out := make([]byte, 0, len(line)+24)
	out = append(append(append(out, dim...), line[:len(timeLayout)]...), reset...)
	out = append(append(append(append(out, ' '), levelColor(level)...), level...), reset...)
	return append(out, line[from+levelWidth:]...)
}

func levelColor(level []byte) string {
	switch level[levelWidth-1] {
	case 'R': // ERROR
		return "\x1b[31m"
	case 'N': // WARN
		return "\x1b[33m"
	case 'O': // INFO
		return "\x1b[32m"
	case 'G': // DEBUG
		return "\x1b[34m"
	}
	return "\x1b[35m"
}
