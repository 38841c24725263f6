package stages

import (
	"bytes"

	"github.com/smg-go/smg/pipeline"
)

// Record writes a line about each request when it is over: when it came, how long prompt and answer were, and hashes that tell which
// prompts begin alike; see [RequestRecord]. No text is kept, and nobody waits for the disk. It stands before the retry stage, since a
// request is one line however many attempts it takes.
func Record(r *Recorder, path string, kind Kind) pipeline.Stage { return &record{r, path, kind} }

type record struct {
	recorder *Recorder
	path     string // of the route
	kind     Kind
}

var (
	_ pipeline.Stage      = (*record)(nil)
	_ pipeline.Contracted = (*record)(nil)
)

func (*record) Name() string { return "record" }

func (s *record) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Body, pipeline.Model, pipeline.Prompt, pipeline.Key},
		Uses:  []pipeline.Dependency{s.recorder},
	}
}

func (s *record) Handle(x *pipeline.Exchange, next pipeline.Next) (err error) {
	if x.DryRun {
		return next(x)
	}
	a := &audience{Client: x.Client}
	x.Client = a
	err = errPanicked
	defer func() { // deferred: a panic is an end as well
		x.Client = a.Client
		s.recorder.add(s.describe(x, a, err))
	}()
	err = next(x)
	return err
}

// describe is the line of a request that is over.
func (s *record) describe(x *pipeline.Exchange, a *audience, err error) *RequestRecord {
	status, _ := x.Result(err)
	line := &RequestRecord{
		Timestamp: max(0, x.Arrived.Sub(s.recorder.began).Milliseconds()), Recording: s.recorder.began.UnixMilli(),
		Route: s.path, Status: status, Stream: x.Body.Stream,
	}
	if x.Served { // else it is whatever the client wrote
		line.Model = x.Model
	}
	if x.Key.Value != "" {
		line.Key = s.recorder.keyPrint(x.Key.Value)
	}
	var usage pipeline.Usage
	if leg := x.Legs.Last(); leg != nil {
		usage = leg.Usage
		line.Stream = line.Stream || leg.Streamed
	}
	line.PromptTokens = min(usage.InputTokens, mostTokens)
	line.Blocks, line.Input = s.recorder.promptPrints(x, usage.InputTokens)
	line.Output = s.outputTokens(usage, a)
	return line
}

// outputTokens is the length of an answer: as the worker says, or else an estimate.
func (s *record) outputTokens(usage pipeline.Usage, a *audience) int {
	switch {
	case usage.OutputTokens > 0:
		return int(min(usage.OutputTokens, mostTokens))
	case !s.kind.answersInTokens():
		return 0
	case a.events > 0:
		return min(s.tokensIn(a.events), mostTokens)
	}
	return min((a.bytes+charsOfToken-1)/charsOfToken, mostTokens)
}

// tokensIn is about how many tokens a stream of so many events has: each has one, but for those that begin and end a chat.
func (s *record) tokensIn(events int) int {
	if s.kind == Chat {
		events -= 3 // the role, the reason for the end, [DONE]
	}
	return max(1, events)
}

// answersInTokens tells whether an engine makes the answer token by token.
func (k Kind) answersInTokens() bool {
	switch k {
	case Embeddings, Classify, CountTokens, Rerank, V1Rerank:
		return false
	}
	return true
}

// audience is a client that counts what it gets.
type audience struct {
	pipeline.Client
	bytes, events int
	within        bool // a line of an event stream has begun and not ended
}

// Write counts the lines of events that carry data. One whose first five bytes come in two pieces is missed: it is an estimate.
func (a *audience) Write(p []byte) (int, error) {
	a.bytes += len(p)
	if len(p) > 0 {
		a.events += bytes.Count(p, []byte("\ndata:"))
		if !a.within && bytes.HasPrefix(p, []byte("data:")) {
			a.events++
		}
		a.within = p[len(p)-1] != '\n'
	}
	return a.Client.Write(p)
}
