package pipeline_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const route = "POST /generate"

type handle = func(x *pipeline.Exchange, next pipeline.Next) error

// stage is a stage without a contract.
func stage(name string, h handle) pipeline.Stage {
	return pipeline.StageFunc(name, pipeline.Contract{}, h)
}

// idle is a stage that does nothing.
func idle(name string) pipeline.Stage { return stage(name, pass) }

func pass(x *pipeline.Exchange, next pipeline.Next) error { return next(x) }

// gives, needs and uses are stages that do nothing, with a contract.
func gives(name string, facts ...pipeline.Fact) pipeline.Stage {
	return pipeline.StageFunc(name, pipeline.Contract{Gives: facts}, pass)
}

func needs(name string, facts ...pipeline.Fact) pipeline.Stage {
	return pipeline.StageFunc(name, pipeline.Contract{Needs: facts}, pass)
}

func uses(name string, deps ...pipeline.Dependency) pipeline.Stage {
	return pipeline.StageFunc(name, pipeline.Contract{Uses: deps}, pass)
}

// answers is a stage that answers 200 with a text.
func answers(name, text string) pipeline.Stage {
	return stage(name, func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, text) })
}

func say(x *pipeline.Exchange, text string) error {
	if err := x.WriteHead(http.StatusOK, int64(len(text)), nil); err != nil {
		return pipeline.ErrClientGone
	}
	if _, err := x.Client.Write([]byte(text)); err != nil {
		return pipeline.ErrClientGone
	}
	return nil
}

// chain assembles stages that are known to fit.
func chain(t testing.TB, route string, stages ...pipeline.Stage) *pipeline.Chain {
	t.Helper()
	c, err := pipeline.Assemble(route, stages...)
	require.NoError(t, err)
	return c
}

// names are the names of a chain's stages.
func names(c *pipeline.Chain) (names []string) {
	for _, s := range c.Stages() {
		names = append(names, s.Name())
	}
	return names
}

// fleet is n workers that are ready. Nothing is ever sent to them.
func fleet(t testing.TB, n int) []*workers.Worker {
	t.Helper()
	ws := make([]*workers.Worker, n)
	for i := range ws {
		w, err := workers.New(workers.NewSpec(fmt.Sprintf("http://127.0.0.1:%d", 30001+i)), workers.DefaultSettings())
		require.NoError(t, err)
		w.SetStatus(workers.Ready)
		ws[i] = w
	}
	return ws
}

// quiet is a runtime whose log nobody reads.
func quiet() *pipeline.Runtime { return pipeline.NewRuntime(slog.New(slog.DiscardHandler)) }

// eventually waits for a condition; the limit is for a broken program only.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, 20*time.Second, time.Millisecond, what)
}
