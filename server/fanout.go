package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/smg-go/smg/workers"
)

// fanoutLimit is how many engines are asked at once.
const fanoutLimit = 32

// outcome is what one engine has answered, or why it has not.
type outcome[T any] struct {
	engine *workers.Worker
	answer T
	err    error
}

// askAll puts one question to every engine, to 32 of them at once, and waits for all of them. The outcomes are in the order of the
// engines.
func askAll[T any](engines []*workers.Worker, ask func(*workers.Worker) (T, error)) []outcome[T] {
	outcomes := make([]outcome[T], len(engines))
	places := make(chan struct{}, fanoutLimit)
	var all sync.WaitGroup
	for i, w := range engines {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			o := outcome[T]{engine: w}
			o.answer, o.err = ask(w)
			outcomes[i] = o
		})
	}
	all.Wait()
	return outcomes
}

// engines are the HTTP workers that stand for their engine: the first of those with one base URL. It reorders nothing and may reuse
// the list.
func engines(all []*workers.Worker) []*workers.Worker {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(w *workers.Worker) bool {
		base := w.Endpoint().Base
		again := seen[base] || w.Mode() != workers.HTTP
		seen[base] = true
		return again
	})
}

// errand is a request that the gateway makes to an engine of its own accord.
type errand struct {
	method, path string
	body         []byte        // JSON; nil for none
	timeout      time.Duration // until the answer has been read
}

// statusError is an answer that is no success.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s", int(e), http.StatusText(int(e)))
}

// ask goes on an errand, with the worker's own key, and has a 2xx answer read. The error is a [statusError] for any other answer.
func (g *gateway) ask(w *workers.Worker, e errand, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, e.method, w.Endpoint().Base+e.path, bytes.NewReader(e.body))
	if err != nil {
		return err
	}
	if bearer := w.Bearer(); bearer != "" {
		r.Header.Set("Authorization", bearer)
	}
	if e.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := g.transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return statusError(resp.StatusCode)
	}
	return read(resp.Body)
}

// unread passes over an answer whose status says it all, as far as that is worth a connection.
func unread(body io.Reader) error {
	_, err := io.CopyN(io.Discard, body, 64<<10)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// failure is an engine that did not do what it was asked to.
type failure struct {
	Worker string `json:"worker"` // base URL
	Error  string `json:"error"`
}

// tally is how a command to all engines has gone.
type tally struct {
	Successful []string  `json:"successful,omitempty"` // base URLs; told only if some have failed
	Failed     []failure `json:"failed,omitempty"`
	succeeded  int
}

// command goes on the same errand to all engines. A failure is logged with its cause, and told without it.
func (g *gateway) command(what string, ws []*workers.Worker, e errand) tally {
	var t tally
	for _, o := range askAll(ws, func(w *workers.Worker) (struct{}, error) { return struct{}{}, g.ask(w, e, unread) }) {
		base := o.engine.Endpoint().Base
		if o.err == nil {
			t.Successful = append(t.Successful, base)
			continue
		}
		g.log.Warn(what+" failed", "worker", base, "error", o.err)
		t.Failed = append(t.Failed, failure{base, what + " failed for worker " + base + e.path + ": " + told(o.err, e.timeout)})
	}
	t.succeeded = len(t.Successful)
	g.log.Info(what, "succeeded", t.succeeded, "failed", len(t.Failed))
	if len(t.Failed) == 0 {
		t.Successful = nil
	}
	return t
}

// told is what an operator hears of a failure.
func told(err error, limit time.Duration) string {
	var status statusError
	switch {
	case errors.As(err, &status):
		return status.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + strconv.Itoa(int(limit.Seconds())) + " seconds"
	}
	return "the engine could not be reached, or broke off its answer"
}

// status is that of the answer: 206 if some engine has failed, even if all have. word is the same for people.
func (t *tally) status() (code int, word string) {
	if len(t.Failed) > 0 {
		return http.StatusPartialContent, "partial_success"
	}
	return http.StatusOK, "success"
}
