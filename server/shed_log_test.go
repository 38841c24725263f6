package server

import (
	"bytes"
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
		var out bytes.Buffer
		lines := func() (all []string) {
			synctest.Wait()
			for line := range strings.Lines(out.String()) {
				_, line, _ = strings.Cut(line, "level=")
				all = append(all, strings.TrimSpace(line))
			}
			out.Reset()
			return all
		}
		s := newShedLog(slog.New(slog.NewTextHandler(&out, nil)))
		const message = `WARN msg="requests shed because of overload" `
		s.note(telemetry.ShedSelection)
		require.Equal(t, []string{message + "count=1 selection=1"}, lines(), "the first at once")
		for range 3 {
			s.note(telemetry.ShedSelection)
			s.note(telemetry.ShedDispatch)
			time.Sleep(shedPause / 4)
		}
		require.Empty(t, lines())
		time.Sleep(shedPause / 4)
		require.Equal(t, []string{message + "count=6 selection=3 dispatch=3"}, lines())
		time.Sleep(10 * shedPause)
		require.Empty(t, lines(), "there was none")
		s.note(telemetry.ShedDispatch)
		require.Equal(t, []string{message + "count=1 dispatch=1"}, lines())
		time.Sleep(2 * shedPause) // so that no timer is left
	})
}
