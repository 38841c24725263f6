package stages

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/smg-go/smg/pipeline"
)

// ExplainHeader answers requests that carry "x-smg-explain: 1" with a header of that name, which says in one line what became of the
// last attempt: the worker that was chosen, by which policy and with which score, among how many candidates, and how many workers
// filters have left out. A policy that rates nobody gives no score; if nobody was chosen, there is no choice and no policy.
//
// It stands behind the retry stage and before the stages that find candidates. Other requests pay for a look at a header; a chain
// without it pays nothing.
func ExplainHeader() pipeline.Stage { return explainHeader{} }

type explainHeader struct{}

var (
	_ pipeline.Stage   = explainHeader{}
	_ pipeline.Watcher = explainHeader{}
)

func (explainHeader) Name() string { return "explain_header" }

func (s explainHeader) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.DryRun || x.Client.Header("X-Smg-Explain") != "1" { // a dry run has a better reader
		return next(x)
	}
	x.Explain = &pipeline.Explanation{} // of this attempt; that of the one before is no longer true
	x.Watch(s)
	err := next(x)
	if err != nil && x.Status() == 0 {
		s.tell(x) // nobody has answered yet: the error's response will say it
	}
	return err
}

// Head comes before anything of the answer is relayed.
func (s explainHeader) Head(x *pipeline.Exchange, _ *pipeline.Leg, _ int) { s.tell(x) }

func (explainHeader) FirstByte(*pipeline.Exchange, *pipeline.Leg) {}

func (explainHeader) tell(x *pipeline.Exchange) {
	var b strings.Builder
	if leg := x.Legs.Last(); leg != nil {
		fmt.Fprintf(&b, "choice=%q, policy=%s, ", leg.Worker.URL(), leg.Policy)
		for _, s := range x.Explain.Scores {
			if s.Worker == leg.Worker {
				fmt.Fprintf(&b, "score=%s, ", strconv.FormatFloat(s.Value, 'g', 6, 64))
				break
			}
		}
	}
	fmt.Fprintf(&b, "candidates=%d, left_out=%d, attempt=%d", x.Candidates.Len(), len(x.Explain.LeftOut), x.Number)
	x.Client.SetHeader("X-Smg-Explain", b.String())
}
