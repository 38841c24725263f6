package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/discovery/clustertest"
)

const (
	// Between one pod that is served and the next that becomes Ready there is a random time. Some come within a second of the pass
	// before and wait for the next one, most do not.
	leastGap, mostGap = 200 * time.Millisecond, 3 * time.Second
	// servedLimit is how long a pod may take until it is served, or is not served any more.
	servedLimit = 30 * time.Second
	// silence is how long there must be no answer of a pod after it has left.
	silence = 500 * time.Millisecond
	// between is the time from an answer to the next question: the resolution of the times.
	between = 2 * time.Millisecond
)

// guest is a pod whose engine alone serves a model, so that an answer of that model is its answer.
type guest struct {
	pod   clustertest.Pod
	model string
}

// comeAndGo measures the time from the report that a pod is Ready to the first answer that its engine has given through smg; and from
// the report that it is not, or that it is being deleted, to the end of its last answer, while it is asked all the time.
func (r *discoveryRun) comeAndGo(ctx context.Context, dir string) error {
	s, err := r.gateway(ctx, dir)
	if err != nil {
		return err
	}
	defer s.close()
	var came, left []time.Duration
	guests := make([]guest, r.Samples)
	for i := range guests {
		if !pause(ctx, leastGap+rand.N(mostGap-leastGap)) {
			return ctx.Err()
		}
		if guests[i], err = r.invite(s.pods.space, i); err != nil {
			return err
		}
		took, err := r.comes(ctx, s, guests[i])
		if err != nil {
			return err
		}
		came = append(came, took)
	}
	for _, g := range guests {
		unready, err := r.leaves(ctx, s, g, func() { s.pods.space.Unready(r.cluster.stand, g.pod.Name) })
		if err != nil {
			return err
		}
		if _, err := r.comes(ctx, s, g); err != nil {
			return err
		}
		terminating, err := r.leaves(ctx, s, g, func() { s.pods.space.Terminate(r.cluster.stand, g.pod.Name, time.Minute) })
		if err != nil {
			return err
		}
		left = append(left, unready, terminating)
	}
	r.report.percentile("pod Ready to first request served", came, 0.50, 0.3)
	r.report.percentile("pod Ready to first request served", came, 0.99, 1.3)
	r.report.percentile("pod unready or terminating to no new request", left, 0.99, 0.3)
	return nil
}

// invite starts an engine in a pod that is not Ready yet.
func (r *discoveryRun) invite(space *clustertest.Namespace, i int) (g guest, err error) {
	g.model = fmt.Sprintf("guest-%d", i)
	err = r.cluster.try(func() {
		e := clustertest.StartEngine(r.cluster.stand, engine.Config{Keep: -1, Models: []string{g.model}})
		g.pod = space.Create(r.cluster.stand, clustertest.Pod{Name: g.model, IP: e.IP, Labels: labelsOf(selected)})
		space.SetStatus(r.cluster.stand, g.pod.Name, clustertest.Status{Phase: "Running", IP: e.IP, Ready: "False"})
	})
	return g, err
}

// comes says that a pod is Ready, and how long it takes until an answer has come. The time of the report is in it.
func (r *discoveryRun) comes(ctx context.Context, s *scene, g guest) (time.Duration, error) {
	began := time.Now()
	if err := r.cluster.try(func() { s.pods.space.Ready(r.cluster.stand, g.pod.Name, g.pod.IP) }); err != nil {
		return 0, err
	}
	for time.Since(began) < servedLimit {
		answered, err := s.ask(ctx, g.model)
		if answered || err != nil {
			return time.Since(began), err
		}
		if !pause(ctx, between) {
			return 0, ctx.Err()
		}
	}
	return 0, fmt.Errorf("%s is not served %s after it was Ready: %s", g.model, servedLimit, s.gateway.output())
}

// leaves asks one question after the other, and has a pod leave meanwhile. It returns how long after that the last answer had come: 0 if
// none came any more.
func (r *discoveryRun) leaves(ctx context.Context, s *scene, g guest, leave func()) (time.Duration, error) {
	gone := make(chan error, 1)
	began := time.Now().Add(50 * between) // the questions are flowing by then
	go func() {
		pause(ctx, time.Until(began))
		gone <- r.cluster.try(leave)
	}()
	last := began
	for time.Since(last) < silence {
		answered, err := s.ask(ctx, g.model)
		if err != nil {
			return 0, errors.Join(err, <-gone)
		}
		if now := time.Now(); answered && now.After(last) {
			last = now
		}
		if time.Since(began) > servedLimit {
			return 0, errors.Join(fmt.Errorf("%s is served %s after it has left", g.model, servedLimit), <-gone)
		}
		pause(ctx, between)
	}
	return last.Sub(began), errors.Join(<-gone, ctx.Err())
}

// ask asks the engines of a model, and tells whether one has answered.
func (s *scene) ask(ctx context.Context, model string) (answered bool, err error) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.gateway.addr+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK, err
}
