package engine

import (
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"
)

// Kind is the engine whose answers are given.
type Kind string

// The engines that can be told apart from outside.
const (
	SGLang Kind = "sglang"
	VLLM   Kind = "vllm"
)

// Config says what an engine is. The zero value is an SGLang engine that serves model "m1" and answers at once.
type Config struct {
	Engine Kind          // SGLang if empty
	Name   string        // what the id of every answer begins with; mock-<port of the first listener> if empty
	Models []string      // the names it serves, at least one; the first is for requests that name none. "m1" if empty
	APIKey string        // the bearer token it asks for; empty: none
	Reply  int           // tokens of a reply, which a request may lower; 16 if 0
	TTFT   time.Duration // time to the first token
	ITL    time.Duration // time between tokens
	Model  *ModelConfig  // an engine with a queue, a batch and a cache instead of those fixed times; nil: none
	Seed   uint64        // of the draws of faults with a probability; 0 is a random one
	Keep   int           // how many requests it remembers; DefaultKeep if 0, none if negative
}

// Engine is a fake inference engine. Its methods may be called at any time from any goroutine.
type Engine struct {
	cfg      Config
	pace     pace
	driver   *driver // of the model; nil: there is none
	reply    reply
	models   []string // as in cfg, escaped for JSON
	started  time.Time
	routes   map[string]*route
	other    route // counts requests for no route
	faults   faultSet
	log      requestLog
	counters counters
	rate     tokenRate
	clock    clock

	mu        sync.Mutex
	name      string // set once, before the first connection
	jsonName  string
	listeners map[net.Listener]struct{}
	conns     map[net.Conn]struct{}
	wg        sync.WaitGroup
}

// New makes an engine; Serve gives it a port.
func New(cfg Config) *Engine {
	if cfg.Engine == "" {
		cfg.Engine = SGLang
	}
	if len(cfg.Models) == 0 {
		cfg.Models = []string{"m1"}
	}
	if cfg.Reply <= 0 {
		cfg.Reply = 16
	}
	if cfg.Keep == 0 {
		cfg.Keep = DefaultKeep
	}
	e := &Engine{
		cfg: cfg, pace: pace{ttft: cfg.TTFT, itl: cfg.ITL}, reply: newReply(cfg.Reply), started: time.Now(),
		log: requestLog{keep: cfg.Keep, maxBytes: maxLogBytes}, listeners: map[net.Listener]struct{}{}, conns: map[net.Conn]struct{}{},
	}
	for _, m := range cfg.Models {
		e.models = append(e.models, escaped(m))
	}
	if cfg.Model != nil {
		e.driver = newDriver(*cfg.Model)
	}
	e.faults.seed(cfg.Seed)
	e.routes = e.newRoutes()
	e.setName(cfg.Name)
	return e
}

// Serve answers the connections of ln until it fails or Close is called, when it returns nil. It closes ln. An engine may serve
// several listeners, and again after Close.
func (e *Engine) Serve(ln net.Listener) error {
	e.listen(ln)
	return e.accept(ln)
}

// listen makes ln known to Close.
func (e *Engine) listen(ln net.Listener) {
	if addr, ok := ln.Addr().(*net.TCPAddr); ok {
		e.setName("mock-" + strconv.Itoa(addr.Port))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners[ln] = struct{}{}
}

func (e *Engine) accept(ln net.Listener) error {
	defer ln.Close()
	for {
		nc, err := ln.Accept()
		if err == nil {
			e.open(nc)
			continue
		}
		e.mu.Lock()
		_, listed := e.listeners[ln]
		delete(e.listeners, ln)
		e.mu.Unlock()
		if !listed || errors.Is(err, net.ErrClosed) {
			return nil
		}
		return err
	}
}

// open serves a connection in a goroutine of its own.
func (e *Engine) open(nc net.Conn) {
	number := e.counters.accepted.Add(1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) == 0 { // accepted in the moment of Close
		_ = nc.Close()
		return
	}
	e.counters.open.Add(1)
	e.conns[nc] = struct{}{}
	c := newConn(e, nc, number)
	e.wg.Go(c.serve)
}

// forget is the last thing that a connection does.
func (e *Engine) forget(nc net.Conn) {
	e.counters.open.Add(-1)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, nc)
}

// Close closes the listeners and all connections, in the middle of answers too, and waits for their goroutines. Logs, counts and
// faults stay.
func (e *Engine) Close() {
	e.mu.Lock()
	for ln := range e.listeners {
		_ = ln.Close()
	}
	clear(e.listeners)
	for nc := range e.conns {
		_ = nc.Close()
	}
	e.mu.Unlock()
	e.wg.Wait()
}

// Name is what the id of every answer begins with; empty before the first Serve if the Config has none.
func (e *Engine) Name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.name
}

func (e *Engine) setName(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.name == "" && name != "" {
		e.name, e.jsonName = name, escaped(name)
	}
}

// SetFaults replaces the set of faults; their counts start anew. Without an argument there are none. It panics on a header line
// that is none, which is a mistake in the test.
func (e *Engine) SetFaults(faults ...Fault) {
	for i := range faults {
		if err := faults[i].valid(); err != nil {
			panic(err)
		}
	}
	e.faults.replace(faults)
}

// Requests returns the last requests, oldest first: those of the /mock routes are not among them.
func (e *Engine) Requests() []Request { return e.log.list() }

// ClearRequests empties the log.
func (e *Engine) ClearRequests() { e.log.clear() }

// escaped is s as it stands between the quotes of a JSON string.
func escaped(s string) string {
	quoted, _ := json.Marshal(s) // a string always marshals
	return string(quoted[1 : len(quoted)-1])
}
