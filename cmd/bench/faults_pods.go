package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/discovery/clustertest"
)

// selected is the label of pods that are to be workers.
const selected = "app=engine"

// retireLimit is how long an engine whose pod is deleted may take to end what it has begun.
const retireLimit = 10 * time.Second

// pods are engines that smg finds by itself, in a namespace of their own. This program is their kubelet.
type pods struct {
	cluster *cluster
	space   *clustertest.Namespace
	scene   *scene
	made    int
	running []*pod
}

// pod is a pod with its engine.
type pod struct {
	clustertest.Pod
	engine *rogue
}

// newPods makes the namespace; there are no pods yet.
func newPods(c *cluster, s *scene) (*pods, error) {
	p := &pods{cluster: c, scene: s}
	return p, c.try(func() { p.space = c.Namespace(c.stand) })
}

// flags have smg look for the pods. A worker that is removed drains a second, so that many are removed in a short time.
func (p *pods) flags() (flags []string, err error) {
	err = p.cluster.try(func() {
		flags = []string{
			"--service-discovery", "--selector", selected, "--service-discovery-port", fmt.Sprint(clustertest.Port),
			"--service-discovery-namespace", p.space.Name, "--service-discovery-kubeconfig", p.space.Kubeconfig(p.cluster.stand, nil),
			"--drain-settle-secs", "1",
		}
	})
	return flags, err
}

// newPodScene starts smg and n engines in pods, and waits until all are found.
func newPodScene(ctx context.Context, binary, dir string, c *cluster, n int) (s *scene, err error) {
	s = emptyScene()
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.pods, err = newPods(c, s); err != nil {
		return nil, err
	}
	flags, err := s.pods.flags()
	if err != nil {
		return nil, err
	}
	if err := s.startGateway(ctx, binary, dir, flags...); err != nil {
		return nil, err
	}
	for range n {
		if err := s.pods.start(); err != nil {
			return nil, err
		}
	}
	return s, s.pods.await(ctx, true)
}

// start runs one more pod, at an address of its own.
func (p *pods) start() error {
	var ip string
	if err := p.cluster.try(func() { ip = clustertest.IP(p.cluster.stand) }); err != nil {
		return err
	}
	e, err := p.scene.newEngineAt(ip, net.JoinHostPort(ip, fmt.Sprint(clustertest.Port)))
	if err != nil {
		return err
	}
	return p.run(ip, e)
}

// run runs a pod for an engine that serves already.
func (p *pods) run(ip string, e *rogue) error {
	p.made++
	next := &pod{Pod: clustertest.Pod{Name: fmt.Sprintf("engine-%d", p.made), IP: ip, Labels: labelsOf(selected)}, engine: e}
	p.running = append(p.running, next)
	return p.cluster.try(func() { next.Pod = p.space.Run(p.cluster.stand, next.Pod) })
}

// labelsOf are the labels of a selector of one pair.
func labelsOf(selector string) map[string]string {
	name, value, _ := strings.Cut(selector, "=")
	return map[string]string{name: value}
}

// remove takes a pod away at once, whatever its state.
func (p *pods) remove(gone *pod) error {
	p.running = slices.DeleteFunc(p.running, func(o *pod) bool { return o == gone })
	return p.cluster.try(func() { p.space.Delete(p.cluster.stand, gone.Name) })
}

// retire deletes pods as a kubelet does whose containers have a preStop that waits a second: they serve on, and are gone when their
// engines have ended what they had begun.
func (p *pods) retire(old ...*pod) error {
	err := p.cluster.try(func() {
		for _, o := range old {
			p.space.Terminate(p.cluster.stand, o.Name, time.Minute)
		}
	})
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	var ending sync.WaitGroup
	for _, o := range old {
		ending.Go(func() {
			for limit := time.Now().Add(retireLimit); o.engine.State().InFlight > 0 && time.Now().Before(limit); {
				time.Sleep(5 * time.Millisecond)
			}
			o.engine.down()
		})
	}
	ending.Wait()
	for _, o := range old {
		err = errors.Join(err, p.remove(o))
	}
	return err
}

// await waits until all pods that run serve. Exactly: and until there are no other workers.
func (p *pods) await(ctx context.Context, exactly bool) error {
	var state string
	for limit := time.Now().Add(startLimit); time.Now().Before(limit); {
		var err error
		if state, err = p.missing(ctx, exactly); state == "" || err != nil {
			return err
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s, for %s: %s", state, startLimit, p.scene.gateway.output())
}

// missing says what is between the pods and the workers; "" if nothing is.
func (p *pods) missing(ctx context.Context, exactly bool) (string, error) {
	var list struct {
		Workers []struct {
			URL, Status string
			Cordoned    bool
			Labels      map[string]string
		}
	}
	if err := p.scene.call(ctx, http.MethodGet, "/workers", "", &list, http.StatusOK); err != nil {
		return "", err
	}
	serving := map[string]string{} // pod UID by URL
	for _, w := range list.Workers {
		if w.Status == "ready" && !w.Cordoned {
			serving[w.URL] = w.Labels[discovery.LabelPodUID]
		}
	}
	for _, o := range p.running {
		if serving[o.engine.url] != o.UID {
			return fmt.Sprintf("pod %s does not serve", o.Name), nil
		}
	}
	if exactly && len(list.Workers) != len(p.running) {
		return fmt.Sprintf("%d workers for %d pods", len(list.Workers), len(p.running)), nil
	}
	return "", nil
}

// roll replaces all pods, some at once: their successors serve before they go.
func (p *pods) roll(ctx context.Context, atOnce int) error {
	for old := range slices.Chunk(slices.Clone(p.running), atOnce) {
		for range old {
			if err := p.start(); err != nil {
				return err
			}
		}
		if err := p.await(ctx, false); err != nil {
			return err
		}
		if err := p.retire(old...); err != nil {
			return err
		}
	}
	return p.await(ctx, true)
}
