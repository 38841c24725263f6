package workers

import (
	"context"
	"errors"
	command "flag" // the package has a flag of its own
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var update = command.Bool("update", false, "rewrite what happened in testdata/states")

// The state machine as prose: workers.md sections 6, 8, 12, 16 and 17. A script is commands, each followed by what happened, in lines
// that begin with ">"; -update writes these. Time is the script's own; the health loop, the job queue and the registry are the real ones.
//
//	set failures=3 successes=2 interval=60s timeout=5s settle=5s recovery=on
//	add NAME            register a worker that is pending, without asking its engine
//	register NAME       the whole addition, from the reservation on
//	engine NAME up      (down, hangs, 500) what the engine answers from now on
//	wait 3m             let time pass
//	suspend 20s         the gateway does not run for a while
//	patch NAME JSON, replace NAME, remove NAME, request NAME (begins one that does not end), show NAME
func TestStates(t *testing.T) {
	files, err := filepath.Glob("testdata/states/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var happened string
			synctest.Test(t, func(t *testing.T) { happened = play(t, string(text)) })
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(happened), 0o644))
				return
			}
			require.Equal(t, string(text), happened)
		})
	}
}

// stage is where a script plays.
type stage struct {
	t        *testing.T
	settings Settings
	recovery bool
	begun    time.Time
	e        *Enroller
	h        *HealthLoop
	stop     context.CancelFunc
	over     chan struct{}

	mu      sync.Mutex
	engines map[string]string
	asleep  time.Time // the gateway does not run until then
	notes   []string
}

// play runs the commands of a script, and returns it with what happened.
func play(t *testing.T, script string) string {
	s := &stage{t: t, settings: DefaultSettings(), begun: time.Now(), engines: map[string]string{}}
	var out strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		s.do(words[0], words[1:])
		synctest.Wait()
		for _, note := range s.taken() {
			out.WriteString("> " + note + "\n")
		}
	}
	s.end()
	return out.String()
}

func (s *stage) do(command string, args []string) {
	if command != "set" {
		s.begin()
	}
	switch command {
	case "set":
		s.set(args)
	case "add":
		w, err := New(s.spec(args[0]), s.settings)
		require.NoError(s.t, err)
		require.NoError(s.t, s.e.registry.Add(w))
	case "register":
		_, err := s.e.Reserve(s.spec(args[0]))
		s.noteError(err)
	case "engine":
		s.mu.Lock()
		s.engines[args[0]] = args[1]
		s.mu.Unlock()
	case "wait", "suspend":
		d, err := time.ParseDuration(args[0])
		require.NoError(s.t, err)
		if command == "suspend" {
			s.mu.Lock()
			s.asleep = time.Now().Add(d)
			s.mu.Unlock()
		}
		time.Sleep(d)
	default:
		s.change(command, s.e.registry.ByURL("http://"+args[0]+":1"), args)
	}
}

func (s *stage) change(command string, w *Worker, args []string) {
	require.NotNil(s.t, w, args[0])
	switch command {
	case "patch":
		p, err := ParsePatch([]byte(strings.Join(args[1:], " ")))
		require.NoError(s.t, err)
		s.noteError(s.e.Update(w.ID(), p))
	case "replace":
		s.noteError(s.e.Replace(w.ID(), s.spec(args[0])))
	case "remove":
		s.noteError(s.e.Remove(w.ID()))
	case "request":
		w.Begin()
	case "show":
		s.note("%s is %s at revision %d, %d in flight", args[0], w.Status(), w.Revision(), w.InFlight())
	default:
		s.t.Fatalf("unknown command %q", command)
	}
}

func (s *stage) set(args []string) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		d, _ := time.ParseDuration(value)
		switch name {
		case "failures":
			s.settings.Health.FailureThreshold = n
		case "successes":
			s.settings.Health.SuccessThreshold = n
		case "interval":
			s.settings.Health.Interval = d
		case "timeout":
			s.settings.Health.Timeout = d
		case "settle":
			s.settings.DrainSettle = d
		case "recovery":
			s.recovery = value == "on"
		default:
			s.t.Fatalf("unknown setting %q", name)
		}
	}
}

func (s *stage) spec(name string) Spec { return NewSpec("http://" + name + ":1") }

// begin starts everything, before the first command that needs it.
func (s *stage) begin() {
	if s.e != nil {
		return
	}
	s.e = NewEnroller(NewRegistry(), s.settings, DefaultStartup(), nil)
	s.e.registry.Listen(s)
	s.h = NewHealthLoop(s.e.registry, slog.New(slog.DiscardHandler))
	s.e.clients.http1.Transport, s.h.clients.http1.Transport = roundTrip(s.answer), roundTrip(s.answer)
	s.h.pulse.wait = func(ctx context.Context, d time.Duration) error {
		s.mu.Lock()
		d = max(d, time.Until(s.asleep))
		s.mu.Unlock()
		return pause(ctx, d)
	}
	if s.recovery {
		s.h.OnFailed(s.e.Retire)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	s.stop, s.over = stop, make(chan struct{})
	readied := make(chan struct{})
	go func() {
		defer close(s.over)
		_ = s.h.Run(ctx, func() { close(readied) })
	}()
	<-readied
}

func (s *stage) end() {
	if s.e == nil {
		return
	}
	s.stop()
	<-s.over
	s.e.Close()
}

// answer is what the engines answer. While the gateway does not run nothing reaches it.
func (s *stage) answer(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	state, asleep := s.engines[r.URL.Hostname()], time.Until(s.asleep)
	s.mu.Unlock()
	if err := pause(r.Context(), asleep); err != nil {
		return nil, err
	}
	switch state {
	case "down":
		return nil, errors.New("connection refused")
	case "hangs":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "500":
		return status(500, ""), nil
	}
	return pretend(r)
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, fmt.Sprintf("%-7s", time.Since(s.begun))+" "+fmt.Sprintf(format, args...))
}

func (s *stage) noteError(err error) {
	if err != nil {
		s.note("refused: %v", err)
	}
}

func (s *stage) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := s.notes
	s.notes = nil
	return notes
}

func (s *stage) WorkerAdded(w *Worker) { s.note("%s is added, %s", w.endpoint.Host, w.Status()) }

func (s *stage) WorkerReplaced(_, now *Worker) {
	s.note("%s is replaced, revision %d, %s", now.endpoint.Host, now.Revision(), now.Status())
}
func (s *stage) WorkerRemoved(w *Worker) { s.note("%s is gone", w.endpoint.Host) }
func (s *stage) WorkerStatus(w *Worker, from, to Status) {
	s.note("%s: %s -> %s", w.endpoint.Host, from, to)
}
