package discovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// discovery.md, section 5
func TestErrorsBackOff(t *testing.T) {
	b := backoff{pace: &defaultPace}
	for range 3 {
		for _, step := range []time.Duration{800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000} {
			wait := b.after(0)
			require.LessOrEqual(t, wait, step*time.Millisecond)
			require.GreaterOrEqual(t, wait, step*time.Millisecond*3/4)
		}
		b.reset()
	}
	require.Equal(t, 7*time.Second, b.after(7*time.Second), "the server asks for more")
	require.Equal(t, 30*time.Second, b.after(time.Hour), "the server asks for too much")
}

// discovery.md, section 5: at most 295 s
func TestAWatchIsRenewed(t *testing.T) {
	for range 1000 {
		life := defaultPace.lifetime()
		require.LessOrEqual(t, life, 295*time.Second)
		require.GreaterOrEqual(t, life, 265*time.Second)
	}
}

// discovery.md, section 18
func TestSecondsInLogLines(t *testing.T) {
	require.Equal(t, "60s", seconds(time.Minute))
	require.Equal(t, "0.3s", seconds(300*time.Millisecond))
}
