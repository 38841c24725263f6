package server

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/telemetry"
)

// telemetry.md, section 7.6: WARN, at most one a second, with a count.
func TestShedsAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		seen := 0
		fresh := func() (all []string) {
			synctest.Wait()
			for line := range strings.Lines(out.String()[seen:]) {
				seen += len(line)
				_, line, _ = strings.Cut(line, "level=")
				all = append(all, strings.TrimSpace(line))
			}
			return all
		}
		s := newShedLog(slog.New(slog.NewTextHandler(&out, nil)))
		const message = `WARN msg="requests shed because of overload" `
		s.note(telemetry.ShedSelection)
		require.Equal(t, []string{message + "count=1 selection=1"}, fresh(), "the first at once")
		for range 3 {
			s.note(telemetry.ShedSelection)
			s.note(telemetry.ShedDispatch)
			time.Sleep(shedPause / 4)
		}
		require.Empty(t, fresh())
		time.Sleep(shedPause / 4)
		require.Equal(t, []string{message + "count=6 selection=3 dispatch=3"}, fresh())
		time.Sleep(10 * shedPause)
		require.Empty(t, fresh(), "there was none")
		s.note(telemetry.ShedDispatch)
		require.Equal(t, []string{message + "count=1 dispatch=1"}, fresh())
		time.Sleep(2 * shedPause) // so that no timer is left
	})
}
