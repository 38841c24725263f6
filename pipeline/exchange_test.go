package pipeline_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

const internalError = `{"error":{"message":"Internal error","type":"server_error","param":null,"code":"internal_error"}}`

// internal is what a client gets for a mistake in a stage.
var internal = []string{
	"head 500 length 97", "field Content-Type: application/json", "field X-SMG-Error-Code: internal_error", "body " + internalError,
}

// DESIGN.md, section 3, "Errors and retries": one place makes the response, if and only if nothing has been written yet.
func TestARequestIsAnsweredOnce(t *testing.T) {
	limited := &pipeline.Error{Status: http.StatusTooManyRequests, Code: "slow_down", Message: "Slow down"}
	limitedAnswer := []string{
		"head 429 length 91", "field Content-Type: application/json", "field X-SMG-Error-Code: slow_down",
		`body {"error":{"message":"Slow down","type":"rate_limit_error","param":null,"code":"slow_down"}}`,
	}
	tests := []struct {
		name   string
		client memory
		handle handle
		want   []string
		code   string // of the error that Serve returns; "" for none
	}{
		{"an answer is left as it is", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			return say(x, "hello")
		}, []string{"head 200 length 5", "body hello"}, ""},
		{"an error is the response", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			return limited
		}, limitedAnswer, "slow_down"},
		{"an error that is wrapped is the response too", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			return errors.Join(errors.New("in between"), limited)
		}, limitedAnswer, "slow_down"},
		{"any other error is a mistake, and its text is not shown", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			return errors.New("secret")
		}, internal, "internal_error"},
		{"a nil *Error in an error is a mistake", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			var none *pipeline.Error
			return none
		}, internal, "internal_error"},
		{"nobody answers", memory{}, pass, internal, "internal_error"},
		{"an error behind the head cuts the response", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			_ = say(x, "hel")
			return limited
		}, []string{"head 200 length 3", "body hel", "abort"}, "slow_down"},
		{"a panic is a mistake, and its text is not shown", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			panic("secret")
		}, internal, "internal_error"},
		{"a panic with nil is a panic", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			panic(nil) //nolint:govet // that is the case
		}, internal, "internal_error"},
		{"a panic behind the head cuts the response", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			_ = say(x, "hel")
			panic("secret")
		}, []string{"head 200 length 3", "body hel", "abort"}, "internal_error"},
		{"nothing is written to a client that has left", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			return pipeline.ErrClientGone
		}, []string{"abort"}, "client_closed_request"},
		{"nor if the error was made anew, with a cause", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			e := *pipeline.ErrClientGone
			e.Cause = errBrokenPipe
			return &e
		}, []string{"abort"}, "client_closed_request"},
		{"a client that leaves before the head of an error has left", memory{deadAtHead: true}, func(*pipeline.Exchange, pipeline.Next) error {
			return limited
		}, []string{"head 429 length 91", "abort"}, "client_closed_request"},
		{"half an error is cut", memory{deadAtBody: true}, func(*pipeline.Exchange, pipeline.Next) error {
			return limited
		}, []string{"head 429 length 91", "field Content-Type: application/json", "field X-SMG-Error-Code: slow_down", "abort"}, "client_closed_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			undone := 0
			c := chain(t, route, stage("undo", func(x *pipeline.Exchange, next pipeline.Next) error {
				defer func() { undone++ }()
				return next(x)
			}), stage("faulty", tt.handle))
			client := tt.client
			err := c.Serve(&client)
			require.Equal(t, tt.want, client.got)
			require.Equal(t, 1, undone, "what a stage has deferred happens however the request ends")
			if tt.code == "" {
				require.NoError(t, err)
			} else {
				require.Equal(t, tt.code, pipeline.AsError(err).Code)
			}
		})
	}
}

// DESIGN.md, section 3: the panic is in the record, with its stack.
func TestAPanicIsTheCauseOfItsError(t *testing.T) {
	err := chain(t, route, stage("faulty", func(*pipeline.Exchange, pipeline.Next) error { panic("secret") })).Serve(&memory{})
	p, ok := errors.AsType[*pipeline.PanicError](err)
	require.True(t, ok)
	require.Equal(t, "secret", p.Value)
	require.Contains(t, string(p.Stack), "exchange_test.go", "the stack leads to the stage")
	require.Contains(t, p.Error(), "panic: secret\n")
}

// DESIGN.md, section 3: a stage that must know the final response concludes; the ones around it find it done.
func TestConcludeIsDoneOnce(t *testing.T) {
	type ending struct {
		status int
		code   string
	}
	full := &pipeline.Error{Status: http.StatusServiceUnavailable, Code: "full", Message: "Full"}
	gone := func(*pipeline.Exchange, pipeline.Next) error { return pipeline.ErrClientGone }
	tests := []struct {
		name   string
		behind handle // what is behind the stage that concludes
		outer  func(err error) error
		seen   ending
		want   []string
	}{
		{"an answer", func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hi") }, same, ending{200, ""}, []string{"head 200 length 2", "body hi"}},
		{"a mistake", func(*pipeline.Exchange, pipeline.Next) error { return errBrokenPipe }, same, ending{500, "internal_error"}, internal},
		{"nobody answers", pass, same, ending{500, "internal_error"}, internal},
		{"a panic", func(*pipeline.Exchange, pipeline.Next) error { panic("secret") }, same, ending{500, "internal_error"}, internal},
		{"the client leaves", gone, same, ending{499, "client_closed_request"}, []string{"abort"}},
		{"an outer stage swallows the error", pass, func(error) error { return nil }, ending{500, "internal_error"}, internal},
		{"an outer stage swallows that the client left", gone, func(error) error { return nil }, ending{499, "client_closed_request"}, []string{"abort"}},
		{"an outer stage returns another error", pass, func(error) error { return full }, ending{500, "internal_error"}, internal},
		{"an outer stage panics when the response is there", pass, func(error) error { panic("late") }, ending{500, "internal_error"}, internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var seen ending
			c := chain(t, route,
				stage("outer", func(x *pipeline.Exchange, next pipeline.Next) error { return tt.outer(next(x)) }),
				stage("account", func(x *pipeline.Exchange, next pipeline.Next) error {
					err := x.Conclude(next)
					seen.status, seen.code = x.Result(err)
					return err
				}),
				stage("end", tt.behind))
			m := &memory{}
			x := &pipeline.Exchange{Client: m}
			status, code := x.Result(c.Run(x))
			require.Equal(t, tt.seen, seen)
			require.Equal(t, seen, ending{status, code}, "those around it see the same end")
			require.Equal(t, tt.want, m.got)
		})
	}
}

func same(err error) error { return err }

// DECISIONS.md, row 43.
func TestResultIsWhatTheClientGot(t *testing.T) {
	full := &pipeline.Error{Status: http.StatusServiceUnavailable, Code: "full", Message: "Full"}
	held := &pipeline.Error{Status: http.StatusBadGateway, Held: &pipeline.Answer{Status: http.StatusBadGateway, Body: []byte("x")}}
	tests := []struct {
		name   string
		client memory
		handle handle
		status int
		code   string
	}{
		{"an answer", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error { return say(x, "hi") }, 200, ""},
		{"an error of the gateway", memory{}, func(*pipeline.Exchange, pipeline.Next) error { return full }, 503, "full"},
		{"a worker's own error has no code of the gateway's", memory{}, func(*pipeline.Exchange, pipeline.Next) error { return held }, 502, ""},
		{"a response that broke keeps the status of its head", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			_ = say(x, "hi")
			return &pipeline.Error{Status: http.StatusBadGateway, Code: "stream_error"}
		}, 200, "stream_error"},
		{"a client that left before the head", memory{}, func(*pipeline.Exchange, pipeline.Next) error {
			return pipeline.ErrClientGone
		}, 499, "client_closed_request"},
		{"a client that left behind the head", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			_ = say(x, "hi")
			return pipeline.ErrClientGone
		}, 499, "client_closed_request"},
		{"a client that left while it was told of an error", memory{deadAtBody: true}, func(*pipeline.Exchange, pipeline.Next) error {
			return full
		}, 499, "client_closed_request"},
		{"a mistake", memory{}, func(*pipeline.Exchange, pipeline.Next) error { return errBrokenPipe }, 500, "internal_error"},
		{"a mistake behind the head", memory{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
			_ = say(x, "hi")
			panic("secret")
		}, 200, "internal_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client, x := tt.client, &pipeline.Exchange{}
			x.Client = &client
			status, code := x.Result(chain(t, route, stage("end", tt.handle)).Run(x))
			require.Equal(t, tt.status, status)
			require.Equal(t, tt.code, code)
			if len(client.got) > 0 && client.got[0] != "abort" {
				require.NotZero(t, x.Status())
				require.False(t, x.HeadAt().Before(x.Arrived))
			} else {
				require.Zero(t, x.Status())
				require.True(t, x.HeadAt().IsZero())
			}
		})
	}
}

// DESIGN.md, section 3, "Explaining": a dry run looks at what was found out, and nobody needs to answer.
func TestADryRunNeedNotAnswer(t *testing.T) {
	ws := fleet(t, 2)
	c := chain(t, route, stage("policy", func(x *pipeline.Exchange, next pipeline.Next) error {
		x.Explain.Leave(ws[1], "policy", "a whim")
		x.Explain.Rate(ws[0], 3, pipeline.Part{Name: "luck", Value: 3})
		x.Legs.Add(ws[0], workers.Regular)
		return next(x)
	}))
	m := &memory{}
	x := &pipeline.Exchange{Client: m, DryRun: true, Explain: &pipeline.Explanation{}}
	require.NoError(t, c.Run(x))
	require.Empty(t, m.got)
	require.Same(t, ws[0], x.Target())
	require.Equal(t, []pipeline.LeftOut{{Worker: ws[1], Stage: "policy", Reason: "a whim"}}, x.Explain.LeftOut)
	require.Equal(t, []pipeline.Score{{Worker: ws[0], Value: 3, Parts: []pipeline.Part{{Name: "luck", Value: 3}}}}, x.Explain.Scores)

	var nobody *pipeline.Explanation // stages need not ask whether somebody wants to know
	nobody.Leave(ws[1], "policy", "a whim")
	nobody.Rate(ws[0], 3)
}

// DESIGN.md, section 3, "Lists": a filter copies what it keeps into the exchange's scratch.
func TestKeepNarrowsTheCandidates(t *testing.T) {
	ws := fleet(t, 4)
	pool := workers.NewRegistry(ws...).Pool("", workers.Regular, ws[0].Mode())
	x := &pipeline.Exchange{}
	x.Pool, x.Candidates = pool, pool
	x.Candidates = x.Keep(func(w *workers.Worker) bool { return w != ws[0] })
	require.Equal(t, ws[1:], x.Candidates.Members())
	x.Candidates = x.Keep(func(w *workers.Worker) bool { return w != ws[2] }) // reads and writes the same memory
	require.Equal(t, []*workers.Worker{ws[1], ws[3]}, x.Candidates.Members())
	require.Equal(t, ws, pool.Members(), "the published list is untouched")
	require.Zero(t, testing.AllocsPerRun(100, func() { x.Candidates = x.Keep((*workers.Worker).Ready) }))
}

// DESIGN.md, section 3: an exchange that waits in the pool keeps nothing of its request alive.
func TestAnExchangeForgetsItsRequest(t *testing.T) {
	ws := fleet(t, 3)
	x := &pipeline.Exchange{Client: &memory{}, Arrived: time.Now(), ID: "id", Model: "m", Asked: "m", Served: true, DryRun: true}
	x.Body, x.Prompt, x.Key = pipeline.RequestBody{Bytes: []byte("b")}, pipeline.RoutingPrompt{Text: "p"}, pipeline.RoutingKey{Value: "k"}
	x.Explain = &pipeline.Explanation{}
	x.Judge = neverHold{}
	x.Watch(&moments{})
	x.BeginAttempt()
	x.Watch(&moments{})
	x.Candidates = workers.ListOf(ws...)
	x.Candidates = x.Keep((*workers.Worker).Ready)
	x.Candidates = x.Keep(func(w *workers.Worker) bool { return w == ws[0] })
	x.Legs.Add(ws[0], workers.Regular)
	x.Try(ws[0])
	require.True(t, x.Charge(ws[0]))
	_ = say(x, "hi")
	x.BeginAttempt() // the second watcher goes here
	require.NotZero(t, x.Kept())

	x.Reset()
	require.Zero(t, x.Kept())
	require.False(t, x.Tried(ws[0]))
	require.True(t, x.Charge(ws[0]))
	x.Reset()
	require.Nil(t, x.Client)
	require.Nil(t, x.Explain)
	require.Nil(t, x.Judge)
	require.Zero(t, x.Arrived)
	require.Zero(t, x.ID+x.Model+x.Asked+x.Prompt.Text+x.Key.Value)
	require.Zero(t, x.Body)
	require.False(t, x.Served || x.DryRun)
	require.Zero(t, x.Number+x.Pool.Len()+x.Candidates.Len()+x.Legs.Len()+x.TriedCount()+x.Status())
	require.Nil(t, x.Target())
	require.Nil(t, x.Legs.At(0).Worker)
	require.True(t, x.HeadAt().IsZero())
}

type neverHold struct{}

func (neverHold) Hold(*pipeline.Exchange, *pipeline.Leg, int) bool { return false }

// DESIGN.md, section 3, "Legs": the breaker charges a worker at most once in a request; DECISIONS.md, row 1.
func TestWorkersAreTriedAndChargedOncePerRequest(t *testing.T) {
	ws := fleet(t, 2)
	x := &pipeline.Exchange{}
	for range 2 {
		x.BeginAttempt()
		x.Try(ws[0])
	}
	require.Equal(t, 2, x.Number)
	require.True(t, x.Tried(ws[0]))
	require.False(t, x.Tried(ws[1]))
	require.Equal(t, 1, x.TriedCount())
	require.True(t, x.Charge(ws[0]))
	x.BeginAttempt()
	require.False(t, x.Charge(ws[0]), "not again in another attempt")
	require.True(t, x.Charge(ws[1]))
}
