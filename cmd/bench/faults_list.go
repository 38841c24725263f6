package main

import (
	"context"
	"fmt"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// fault is something that goes wrong under load. Of the three engines of a scene, the first one is the one to suffer.
type fault struct {
	name   string
	says   string // what happens, for the table's legend
	breaks bool   // streams that had begun may end visibly broken
	errors bool   // requests may be answered with a documented error, although one engine or two are well

	clients int     // at least so many
	vanish  float64 // share of the requests whose client leaves
	ends    bool    // smg ends by it
	pods    bool    // the engines are in pods, and there is load until act returns
	act     func(ctx context.Context, s *scene) error
}

// faults are run in this order. With one engine out of three in trouble, smg promises that every request that has not begun to be
// answered is completed; the exceptions are marked.
var faults = []fault{
	{name: "none", says: "nothing goes wrong", act: idly},
	{name: "killed", says: "an engine dies, and comes back in the last quarter", breaks: true, act: killed},
	{name: "restarted", says: "an engine dies and comes back on the same port, five times a second", breaks: true, act: restarted},
	{name: "hung", says: "an engine accepts requests and never answers", act: faulty(engine.Fault{HangHeadMillis: -1})},
	{name: "hung stream", says: "an engine stops in the middle of its answers", breaks: true, act: faulty(engine.Fault{HangAfterEvents: new(2)})},
	{name: "slowed", says: "an engine takes 100 ms longer", act: faulty(engine.Fault{TTFTMillis: 100, ITLMillis: 10})},
	{name: "429", says: "an engine is at its capacity", act: faulty(engine.Fault{Status: 429, RetryAfter: "1"})},
	{name: "500", says: "an engine fails", act: faulty(engine.Fault{Status: 500})},
	{name: "503", says: "an engine is unavailable", act: faulty(engine.Fault{Status: 503})},
	{name: "all 503", says: "all engines are unavailable half of the time", errors: true, act: flickering},
	{name: "garbage", says: "an engine answers with what is no HTTP", act: faulty(engine.Fault{Malformed: engine.GarbledHead})},
	{name: "bad chunks", says: "an engine breaks the framing of its answers", breaks: true, act: faulty(engine.Fault{Malformed: engine.GarbledChunk})},
	{name: "cut", says: "an engine closes in the middle of its answers", breaks: true, act: faulty(engine.Fault{CutAfterEvents: new(2)})},
	{name: "reset", says: "an engine resets connections in the middle of its answers", breaks: true, act: faulty(engine.Fault{CutAfterEvents: new(2), Reset: true})},
	{name: "churn", says: "workers are added and removed 20 times a second", act: churn},
	{name: "vanish", says: "two clients out of three leave at random moments", vanish: 0.66, act: idly},
	{name: "crowd", says: "more clients than --max-concurrent-requests and the queue", errors: true, clients: maxConcurrent + queueSize + 16, act: idly},
	{name: "stop", says: "smg is told to stop", ends: true, act: stopped},
	{name: "pod deleted", says: "pods are deleted with their engines, and others come", breaks: true, pods: true, act: podDeleted},
	{name: "pod unready", says: "pods are not ready for a while: too short for a removal, or long enough", pods: true, act: podUnready},
	{name: "pod replaced", says: "pods are replaced by others at their addresses", pods: true, act: podReplaced},
	{name: "pods rolled", says: "all pods are replaced, one after the other", pods: true, act: podsRolled},
}

func faultNames() (names []string) {
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

func idly(context.Context, *scene) error { return nil }

// faulty has the first engine misbehave until the end.
func faulty(f engine.Fault) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		s.engines[0].SetFaults(f)
		<-ctx.Done()
		s.engines[0].SetFaults()
		return nil
	}
}

// flickering has all engines misbehave every other moment.
func flickering(ctx context.Context, s *scene) error {
	for bad := true; pause(ctx, 100*time.Millisecond); bad = !bad {
		for _, e := range s.engines {
			if bad {
				e.SetFaults(engine.Fault{Status: 503, RetryAfter: "0"})
			} else {
				e.SetFaults()
			}
		}
	}
	for _, e := range s.engines {
		e.SetFaults()
	}
	return nil
}

func killed(ctx context.Context, s *scene) error {
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	if !pause(ctx, left/4) {
		return nil
	}
	s.engines[0].down()
	pause(ctx, left/2)
	return s.engines[0].up()
}

func restarted(ctx context.Context, s *scene) error {
	for pause(ctx, 100*time.Millisecond) {
		s.engines[0].down()
		pause(ctx, 100*time.Millisecond)
		if err := s.engines[0].up(); err != nil {
			return err
		}
	}
	return nil
}

// churn adds and removes further workers. One is removed while requests run there, which smg waits for.
func churn(ctx context.Context, s *scene) error {
	var spare [4]*rogue
	for i := range spare {
		e, err := s.newEngine(fmt.Sprintf("spare%d", i))
		if err != nil {
			return err
		}
		spare[i] = e
	}
	ids := map[string]string{}
	for i := 0; pause(ctx, 50*time.Millisecond); i++ {
		url := spare[i%len(spare)].url
		if id, there := ids[url]; there {
			delete(ids, url)
			if err := s.remove(ctx, id); err != nil && ctx.Err() == nil {
				return err
			}
			continue
		}
		id, err := s.add(ctx, url)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if id != "" { // else the removal before is not over yet
			ids[url] = id
		}
	}
	for _, id := range ids {
		if err := s.remove(context.WithoutCancel(ctx), id); err != nil {
			return err
		}
	}
	return nil
}

// stopped tells smg to stop in the middle of the load, and waits until it has ended by itself.
func stopped(ctx context.Context, s *scene) error {
	deadline, _ := ctx.Deadline()
	pause(ctx, time.Until(deadline)/2)
	return s.shutDown()
}

// pause returns false if the context was done before the time was over.
func pause(ctx context.Context, d time.Duration) bool { return sleepUntil(ctx, time.Now().Add(d)) }
