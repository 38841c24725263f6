package server

import (
	"log/slog"
	"sync"
	"time"

	"github.com/smg-go/smg/telemetry"
)

// shedPause is the least time between two lines about sheds.
const shedPause = time.Second

// shedLog warns of requests that the overload protection turns away: of the first one at once, of those that follow in a line for
// all of them, once a second. Under an overload a line for each would be one more load.
type shedLog struct {
	log *slog.Logger

	mu      sync.Mutex
	counts  map[telemetry.ShedStage]int // since the last line
	pausing bool
}

func newShedLog(log *slog.Logger) *shedLog {
	return &shedLog{log: log, counts: map[telemetry.ShedStage]int{}}
}

// note takes in one more.
func (s *shedLog) note(stage telemetry.ShedStage) {
	s.mu.Lock()
	s.counts[stage]++
	first := !s.pausing
	s.pausing = true
	s.mu.Unlock()
	if first {
		s.tell()
	}
}

// tell writes the line, and comes again after the pause; when there is nothing to tell any more, the next shed begins anew.
func (s *shedLog) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	var stages []any
	for _, stage := range []telemetry.ShedStage{telemetry.ShedSelection, telemetry.ShedDispatch, telemetry.ShedPDAdmission} {
		if n := s.counts[stage]; n > 0 {
			sum += n
			stages = append(stages, slog.Int(stage.String(), n))
		}
	}
	if s.pausing = sum > 0; !s.pausing {
		return
	}
	clear(s.counts)
	s.log.Warn("requests shed because of overload", append([]any{"count", sum}, stages...)...)
	time.AfterFunc(shedPause, s.tell)
}
