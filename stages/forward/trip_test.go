package forward

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// trip is one request through a small chain: a stage that sets the leg, and forward.
type trip struct {
	*caller
	settings  Settings
	transport http.RoundTripper
	limits    workers.HTTPPoolSettings
	key       string                // the worker's API key
	between   func(err error) error // sees what forward returns; nil: nobody does
	worker    *workers.Worker
	x         *pipeline.Exchange
	leg       *pipeline.Leg // set when the request reaches forward
	told      sync.Mutex
	moments   []string
	err       error
}

// newTrip is a request to a server with a body, or with an upload if the body is nil. configure may be nil.
func newTrip(tb testing.TB, s *rawServer, rt http.RoundTripper, configure func(*trip)) *trip {
	tb.Helper()
	r := &trip{caller: newCaller(tb), transport: rt, limits: workers.DefaultHTTPPoolSettings(), x: &pipeline.Exchange{ID: "req-1"}}
	r.x.Body.Bytes = []byte(`{"text":"hi"}`)
	if configure != nil {
		configure(r)
	}
	if r.body != nil {
		r.x.Body.Streamed, r.x.Body.Bytes = true, nil
	}
	r.worker = workerAt(tb, "http://"+s.Dial, r.key, r.limits)
	return r
}

func workerAt(tb testing.TB, url, key string, limits workers.HTTPPoolSettings) *workers.Worker {
	tb.Helper()
	spec := workers.NewSpec(url)
	spec.APIKey = key
	settings := workers.DefaultSettings()
	settings.HTTPPool = limits
	w, err := workers.New(spec, settings)
	require.NoError(tb, err)
	return w
}

// target is the stage that stands for all those that choose and count.
func (r *trip) target() pipeline.Stage {
	contract := pipeline.Contract{Gives: []pipeline.Fact{pipeline.Target}}
	return pipeline.StageFunc("target", contract, func(x *pipeline.Exchange, next pipeline.Next) error {
		r.leg = x.Legs.Add(r.worker, r.worker.Type())
		x.Watch(r)
		x.Legs.Begin()
		defer x.Legs.End()
		err := next(x)
		if r.between != nil {
			err = r.between(err)
		}
		return err
	})
}

// Head and FirstByte note the moments.
func (r *trip) Head(_ *pipeline.Exchange, _ *pipeline.Leg, status int) {
	r.note(fmt.Sprintf("head %d", status))
}

func (r *trip) FirstByte(*pipeline.Exchange, *pipeline.Leg) { r.note("first byte") }

func (r *trip) note(moment string) {
	r.told.Lock()
	defer r.told.Unlock()
	r.moments = append(r.moments, moment)
}

func (r *trip) momentCount() int {
	r.told.Lock()
	defer r.told.Unlock()
	return len(r.moments)
}

// run takes the request through the chain.
func (r *trip) run() *trip {
	r.tb.Helper()
	return r.start()()
}

// start does so in the background; the returned function waits for the end, and checks what holds for every end.
func (r *trip) start() (wait func() *trip) {
	chain, err := pipeline.Assemble("POST /generate", r.target(), To(r.transport, r.settings))
	require.NoError(r.tb, err)
	r.x.Client = r.caller
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.err = chain.Run(r.x)
	}()
	return func() *trip {
		r.tb.Helper()
		select {
		case <-over:
		case <-time.After(waiting):
			r.tb.Fatal("the request does not end")
		}
		require.Zero(r.tb, r.Watching(), "nobody waits for the client any more")
		require.Zero(r.tb, r.worker.InFlight())
		require.True(r.tb, r.deadline.IsZero(), "no deadline stays on the client's connection")
		require.Equal(r.tb, r.broke(), r.aborted && r.status != 0, "a response that broke is cut, and no other")
		return r
	}
}

// broke tells whether the request failed behind the head of a worker's answer.
func (r *trip) broke() bool {
	return r.err != nil && pipeline.AsError(r.err).Held == nil && r.status != 0 && r.field("X-SMG-Error-Code") == ""
}

// code is the code of the error that ended the request, "" if it ended well.
func (r *trip) code() string {
	if r.err == nil {
		return ""
	}
	return pipeline.AsError(r.err).Code
}

// onBoth runs a test with the lean client and with a transport of the standard library.
func onBoth(t *testing.T, test func(t *testing.T, rt http.RoundTripper)) {
	t.Helper()
	t.Run("lean", func(t *testing.T) { test(t, testTransport(t)) })
	t.Run("standard", func(t *testing.T) {
		rt := &http.Transport{}
		t.Cleanup(rt.CloseIdleConnections)
		test(t, rt)
	})
}

// scripted is a server that answers each request with what it is told, piece by piece; a closed channel ends the connection.
func scripted(tb testing.TB) (s *rawServer, say chan string) {
	say = make(chan string)
	s = listen(tb, func(p *peer) {
		if r, _ := p.request(); r == nil {
			return
		}
		for text := range say {
			if _, err := p.Write([]byte(text)); err != nil {
				return
			}
		}
	})
	return s, say
}

// chunk is a chunk of a body.
func chunk(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }

// chunked is a whole answer.
func chunkedAnswer(head string, texts ...string) string {
	for i, text := range texts {
		texts[i] = chunk(text)
	}
	answer := head + "Transfer-Encoding: chunked\r\n\r\n"
	for _, text := range texts {
		answer += text
	}
	return answer + "0\r\n\r\n"
}

const (
	okHead     = "HTTP/1.1 200 OK\r\n"
	streamHead = okHead + "Content-Type: text/event-stream\r\n"
	chunkedSSE = streamHead + "Transfer-Encoding: chunked\r\n\r\n"
	event1     = "data: {\"a\":1}\n\n"
	event2     = "data: {\"b\":2}\n\n"
	done       = "data: [DONE]\n\n"
)
