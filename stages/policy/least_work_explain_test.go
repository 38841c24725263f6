package policy

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// DESIGN, "Explaining": the parts add up, and asking changes nothing.
func TestLeastWorkExplainsItself(t *testing.T) {
	_, all := fleet(t, 3)
	w := newWorks(t)
	w.send(t, streamed(ids(1, 1600)...), all[0])
	w.send(t, unstreamed(ids(2, 800)...), all[1])
	type book struct {
		queued   float64
		inFlight int64
	}
	books := func() (now [3]book) {
		for i, of := range all {
			now[i] = book{w.queued(of), w.inFlight(of)}
		}
		return now
	}
	before, stamp := books(), w.index.stamp
	x := streamed(ids(1, 2000)...)
	for range 3 {
		x.DryRun, x.Explain = true, &pipeline.Explanation{}
		require.Equal(t, 0, w.Select(x, workers.ListOf(all...)))
		require.Equal(t, []float64{1600 + 320 + 800, 800 + 320 + 4000, 4000}, []float64{x.Explain.Scores[0].Value, x.Explain.Scores[1].Value, x.Explain.Scores[2].Value})
		for _, s := range x.Explain.Scores {
			sum := 0.0
			for _, p := range s.Parts {
				sum += p.Value
			}
			require.InDelta(t, s.Value, sum, 1e-9)
		}
	}
	require.Equal(t, before, books())
	require.Equal(t, stamp, w.index.stamp)
}

// DESIGN, "Explaining": what is explained is what is compared, whatever is in the books.
func TestWhatLeastWorkExplainsIsWhatItCompares(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	_, all := fleet(t, 4)
	for i, of := range all {
		says(of, workers.RankLoad{RunningLimit: int64(2 * i)})
	}
	w := newWorks(t)
	var open []*pipeline.Exchange
	for k := range 300 {
		x := streamed(append(ids(r.IntN(3), 160), ids(10+r.IntN(9), 16*r.IntN(50))...)...)
		x.Body.Stream = k%2 == 0
		w.send(t, x, all[r.IntN(len(all))])
		open = append(open, x)
		w.sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		if len(open) > 20 {
			w.end(open[0], 200)
			open = open[1:]
		}
		for _, of := range all {
			said, _ := w.weigh(x, "", of)
			require.InDelta(t, said[0], w.compared(x, of), 0.01)
		}
	}
}

// compared is the score with which a worker takes part in a choice of its own.
func (w *works) compared(x *pipeline.Exchange, of *workers.Worker) float64 {
	s := new(workScratch)
	s.prompt.read(x, w.index.pageTokens)
	w.index.mu.Lock()
	defer w.index.mu.Unlock()
	w.index.match(s)
	w.books.mu.Lock()
	defer w.books.mu.Unlock()
	return w.judge(workers.ListOf(of), s).score
}
