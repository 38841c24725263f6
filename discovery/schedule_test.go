package discovery

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// moment is something that happens a number of milliseconds after the start: "alter", "touch" or "cordon".
type moment struct {
	at   int
	what string
}

// passesOf plays moments to a schedule that has made its first pass at 0, and is when passes begin until the end, in milliseconds.
func passesOf(moments []moment, end int) (begun []int) {
	start := time.Unix(1_000_000, 0)
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := newSchedule(DefaultSettings(), start)
	s.begin(start)
	s.saw()
	s.prompted = time.Time{} // the first pass was that of the synchronisation
	for now := range end {
		for len(moments) > 0 && moments[0].at == now {
			switch moments[0].what {
			case "alter", "touch":
				s.note(after(now), moments[0].what == "alter")
			case "cordon":
				s.remind(after(now).Add(time.Second))
			}
			moments = moments[1:]
		}
		if !after(now).Before(s.next()) {
			s.begin(after(now))
			begun = append(begun, now)
		}
	}
	return begun
}

// discovery.md section 9, DECISIONS 51.
func TestPassesBeginAFixedTimeAfterTheirReason(t *testing.T) {
	tests := []struct {
		name    string
		moments []moment
		end     int
		want    []int
	}{
		{"nothing happens: one a minute", nil, 130_000, []int{60_000, 120_000}},
		{"other workers are wanted: 50 ms", []moment{{5000, "alter"}}, 10_000, []int{5050}},
		{"again within a second of that pass: a second after it", []moment{{5000, "alter"}, {5200, "alter"}}, 10_000, []int{5050, 6050}},
		{"just before that second is over", []moment{{5000, "alter"}, {6049, "alter"}}, 10_000, []int{5050, 6099}},
		{"later changes do not put it off", []moment{{5000, "alter"}, {5040, "alter"}, {5045, "touch"}}, 10_000, []int{5050}},
		{"anything else: a second", []moment{{5000, "touch"}}, 10_000, []int{6000}},
		{"anything else does not make the next change wait", []moment{{5000, "touch"}, {6100, "alter"}}, 10_000, []int{6000, 6150}},
		{"a prompt pass serves what is being gathered", []moment{{5000, "touch"}, {5500, "alter"}}, 10_000, []int{5550}},
		{"a cordon is looked at after a second", []moment{{5000, "cordon"}, {5500, "cordon"}}, 10_000, []int{6000}},
		{"the minute begins with the last pass", []moment{{59_000, "touch"}}, 121_000, []int{60_000, 120_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, passesOf(tt.moments, tt.end)) })
	}
}

// discovery.md section 9 and D43: changes that never end neither starve passes nor multiply them.
func TestContinuousChangesGiveOnePassASecond(t *testing.T) {
	for _, what := range []string{"alter", "touch"} {
		t.Run(what, func(t *testing.T) {
			var moments []moment
			for at := 0; at < 30_000; at += 50 {
				moments = append(moments, moment{at, what})
			}
			n := len(passesOf(moments, 32_000))
			require.True(t, n >= 25 && n <= 35, fmt.Sprint(n, " passes"))
		})
	}
}

// DECISIONS 51: a fleet that flaps does not cost a pass for each of its workers.
func TestPassesForCordonsKeepADistance(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	s := newSchedule(DefaultSettings(), start)
	s.saw()
	s.begin(start)
	s.remind(start)
	require.Equal(t, start.Add(250*time.Millisecond), s.next())
	s.remind(start.Add(time.Hour))
	require.Equal(t, start.Add(250*time.Millisecond), s.next(), "the earliest counts")
}

// discovery.md section 9: one pass at once when the source has been read, however long that has taken.
func TestTheFirstPassIsNotWaitedFor(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	s := newSchedule(DefaultSettings(), start)
	require.Equal(t, start.Add(time.Minute), s.next())
	s.note(start.Add(time.Second), false)
	require.Equal(t, start.Add(time.Second), s.next())
	s.begin(start.Add(time.Second)) // the source was not ready after all
	s.note(start.Add(2*time.Second), true)
	require.Equal(t, start.Add(2*time.Second), s.next())
}
