package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// What smg is told in every scene.
const (
	maxConcurrent = 64
	queueSize     = 32
	attemptLimit  = 1 // seconds that one attempt at a worker may take
)

// scene is a gateway in front of engines that can be made to suffer.
type scene struct {
	gateway *process
	metrics string // its address
	engines []*rogue
	spares  []*rogue
	pods    *pods // those that the engines are in, where smg finds them by itself; else nil
	witness *witness
	http    *http.Client // for the worker API
}

// newScene starts three engines and smg, and registers the engines.
func newScene(ctx context.Context, binary, dir string) (s *scene, err error) {
	s = emptyScene()
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i := range 3 {
		e, err := s.newEngine(fmt.Sprintf("w%d", i+1))
		if err != nil {
			return nil, err
		}
		s.engines = append(s.engines, e)
	}
	if err := s.startGateway(ctx, binary, dir); err != nil {
		return nil, err
	}
	for _, e := range s.engines {
		if _, err := s.add(ctx, e.url); err != nil {
			return nil, err
		}
	}
	return s, s.awaitWorkers(ctx, len(s.engines))
}

func emptyScene() *scene {
	return &scene{witness: newWitness(), http: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}}
}

// startGateway starts smg; more are flags beside those of every scene.
func (s *scene) startGateway(ctx context.Context, binary, dir string, more ...string) error {
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	s.metrics = fmt.Sprintf("127.0.0.1:%d", ports[1])
	args := []string{
		"launch", "--host", "127.0.0.1", "--port", fmt.Sprint(ports[0]), "--prometheus-host", "127.0.0.1", "--prometheus-port", fmt.Sprint(ports[1]),
		"--policy", "round_robin", "--log-level", "error", "--worker-startup-check-interval", "1",
		"--max-concurrent-requests", fmt.Sprint(maxConcurrent), "--queue-size", fmt.Sprint(queueSize),
		"--upstream-pool-idle-timeout-secs", "1", "--health-check-interval-secs", "3600", "--retry-initial-backoff-ms", "5",
		"--shutdown-grace-period-secs", "4",
	}
	if s.gateway, err = start(binary, append(args, more...), dir, fmt.Sprintf("127.0.0.1:%d", ports[0])); err != nil {
		return err
	}
	return s.gateway.await(ctx, func(ctx context.Context, addr string) error {
		return s.call(ctx, http.MethodGet, "/health", "", nil, http.StatusOK)
	})
}

// close ends everything.
func (s *scene) close() {
	if s.gateway != nil {
		s.gateway.stop()
	}
	for _, e := range append(s.engines, s.spares...) {
		e.down()
	}
	s.http.CloseIdleConnections()
}

// call asks the gateway and expects a status; into is filled with the JSON of the answer, if it is not nil.
func (s *scene) call(ctx context.Context, method, path, body string, into any, wanted ...int) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.gateway.addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	for _, status := range wanted {
		if resp.StatusCode == status {
			if into != nil {
				_ = json.Unmarshal(text, into)
			}
			return nil
		}
	}
	return fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, text)
}

// add registers a worker; the id is empty if the gateway still has one of that URL, which it is removing.
func (s *scene) add(ctx context.Context, url string) (id string, err error) {
	spec := fmt.Sprintf(`{"url":%q,"http_pool":{"timeout_secs":%d}}`, url, attemptLimit)
	var accepted struct {
		WorkerID string `json:"worker_id"`
	}
	err = s.call(ctx, http.MethodPost, "/workers", spec, &accepted, http.StatusAccepted, http.StatusConflict)
	return accepted.WorkerID, err
}

func (s *scene) remove(ctx context.Context, id string) error {
	return s.call(ctx, http.MethodDelete, "/workers/"+id, "", nil, http.StatusAccepted, http.StatusOK, http.StatusNotFound, http.StatusConflict)
}

func (s *scene) awaitWorkers(ctx context.Context, n int) error {
	limit := time.Now().Add(startLimit)
	for time.Now().Before(limit) {
		var list struct{ Workers []json.RawMessage }
		if err := s.call(ctx, http.MethodGet, "/workers", "", &list, http.StatusOK); err != nil {
			return err
		}
		if len(list.Workers) == n && s.call(ctx, http.MethodGet, "/readiness", "", nil, http.StatusOK) == nil {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("there never were %d workers: %s", n, s.gateway.output())
}

var errStopped = errors.New("smg does not stop")

// shutDown asks smg to stop, and waits until it has; it must not be killed for it.
func (s *scene) shutDown() error {
	terminate(s.gateway.cmd)
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	select {
	case <-s.gateway.exited:
	case <-timer.C:
		return errStopped
	}
	if code := s.gateway.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("smg ended with status %d: %s", code, s.gateway.output())
	}
	return nil
}

// rogue is an engine that can die and come back on its port.
type rogue struct {
	*engine.Engine
	url     string
	addr    string
	witness *witness
	serving sync.WaitGroup
}

func (s *scene) newEngine(name string) (*rogue, error) { return s.newEngineAt(name, "127.0.0.1:0") }

func (s *scene) newEngineAt(name, addr string) (*rogue, error) {
	e := &rogue{
		Engine:  engine.New(engine.Config{Name: name, Keep: -1, TTFT: 2 * time.Millisecond, ITL: 2 * time.Millisecond, Reply: 8}),
		addr:    addr,
		witness: s.witness,
	}
	if err := e.up(); err != nil {
		return nil, err
	}
	e.url = "http://" + e.addr
	s.spares = append(s.spares, e) // to be closed in any case; closing twice does nothing
	return e, nil
}

func (e *rogue) up() error {
	l, err := net.Listen("tcp", e.addr)
	if err != nil {
		return err
	}
	e.addr = l.Addr().String()
	e.serving.Go(func() { _ = e.Serve(watchedListener{l, e.witness}) })
	return nil
}

// down closes the port and all connections.
func (e *rogue) down() {
	e.Close()
	e.serving.Wait()
}
