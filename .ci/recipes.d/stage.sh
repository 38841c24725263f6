# A stage that puts a notice into every answer.

cat >stages/notice_test.go <<'GO'
package stages

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
)

// Recipe "Add a stage": an answer has the notice, whoever made it.
func TestANoticeIsInEveryAnswer(t *testing.T) {
	r := newRig(t, 1, attempts(1))
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		return c.Before("buffer", Notice("closed on Sunday"))
	})
	for _, status := range []int{200, 400, 503} {
		r.engines[0].SetFaults(engine.Fault{Status: status})
		require.Equal(t, "closed on Sunday", r.ask(chat()).head.Get("X-Smg-Notice"), "%d", status)
	}
}
GO
red "undefined: Notice" go test ./stages -run Notice

cat >stages/notice.go <<'GO'
package stages

import "github.com/smg-go/smg/pipeline"

// Notice puts a text into every answer, as the header x-smg-notice. It costs nothing worth measuring.
func Notice(text string) pipeline.Stage { return notice{text} }

type notice struct{ text string }

var _ pipeline.Stage = notice{}

func (notice) Name() string { return "notice" }

func (n notice) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	x.Client.AddHeader("X-Smg-Notice", n.text)
	return next(x)
}
GO
green go test ./stages -run Notice

replace server/pipelines_test.go "admission buffer" "admission notice buffer"
replace server/pipelines_test.go "admission form" "admission notice form"
red "notice" go test ./server -run Pipelines

insert server/routes.go before "stages.Buffer(g.buffering, kind)," <<'GO'
		stages.Notice("closed on Sunday"),
GO
red "Page" go test ./server -run "$pages"
golden
green go test ./server -run "$pages"
green grep --quiet notice docs/stages.md
