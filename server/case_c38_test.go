package server

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// holder is a worker that holds its answers until it is told, and keeps count of who is there.
type holder struct {
	mu      sync.Mutex
	order   []string // the ids of requests, as they came
	now     int
	most    int // of now
	release chan struct{}
	act     func(a *act) // what it does instead; nil: it holds
}

func newHolder() *holder { return &holder{release: make(chan struct{})} }

func (h *holder) play(a *act) {
	h.mu.Lock()
	h.order = append(h.order, a.Header.Get("X-Request-Id"))
	h.now++
	h.most = max(h.most, h.now)
	does := h.act
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.now--
	}()
	if does == nil {
		does = h.hold
	}
	does(a)
}

// hold begins a stream, and ends it, or answers, when it is told.
func (h *holder) hold(a *act) {
	streams := strings.Contains(a.Sent, `"stream":true`)
	if streams {
		a.stream()
		a.chunk("data: {\"id\":\"1\"}\n\n")
	}
	select {
	case <-h.release:
	case <-a.gone:
		return
	}
	if !streams {
		a.answer(chatAnswer)
		return
	}
	a.chunk("data: [DONE]\n\n")
	a.done()
}

// does makes the worker do something else from now on.
func (h *holder) does(act func(a *act)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.act = act
}

// came are the ids that begin so, in the order of their coming.
func (h *holder) came(prefix string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.order), func(id string) bool { return !strings.HasPrefix(id, prefix) })
}

func (h *holder) busiest() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// gauge is the value of a family with one series.
func (g *running) gauge(t testing.TB, family string) int {
	t.Helper()
	f := g.page(t)[family]
	require.NotNil(t, f, family)
	return int(f.GetMetric()[0].GetGauge().GetValue())
}

// queued waits until so many requests wait for admission.
func (g *running) queued(t testing.TB, n int) {
	t.Helper()
	g.until(t, func() bool { return g.gauge(t, "smg_admission_queue_depth") == n })
}

// asks sends a request whose answer is not read yet.
func (g *running) asks(t testing.TB, id, body string) *wire {
	t.Helper()
	c := g.dial(t)
	c.post(t, chatPath, len(body), body, "X-Request-Id: "+id)
	return c
}

// Case C38 (admission queue leaks), http-dataplane.md section 11.1: four run, streams until their last byte; three wait, in order; the
// rest is refused. Whoever leaves gives up the place.
func TestC38TheQueueKeepsItsOrderAndItsSize(t *testing.T) {
	t.Parallel()
	h := newHolder()
	g := startPuppets(t, func(c *Config) { c.MaxConcurrentRequests, c.QueueSize, c.QueueTimeout = 4, 3, 10 }, startPuppet(t, h.play))
	var streams, waiting []*wire
	var bodies []io.Reader
	for i := range 4 {
		s := g.asks(t, fmt.Sprintf("s%d", i), chats)
		head := s.read(t)
		require.Equal(t, http.StatusOK, head.StatusCode)
		streams, bodies = append(streams, s), append(bodies, head.Body)
	}
	for i := range 3 {
		waiting = append(waiting, g.asks(t, fmt.Sprintf("q%d", i), chat))
		g.queued(t, i+1)
	}
	eighth := g.post(t, chatPath, chat)
	requireJSONError(t, eighth, http.StatusTooManyRequests, "admission_queue_full")
	require.Equal(t, "2", eighth.Header.Get("Retry-After"))
	for _, path := range []string{"/health", "/v1/models", "/workers"} {
		require.Equal(t, http.StatusOK, g.get(t, path).StatusCode, "%s answers while all permits are taken", path)
	}

	waiting[0].leave(false)
	g.queued(t, 2)
	waiting = append(waiting, g.asks(t, "q3", chat))
	g.queued(t, 3)
	streams[0].leave(false)
	g.until(t, func() bool { return len(h.came("q")) > 0 })
	require.Equal(t, []string{"q1"}, h.came("q"), "the oldest of those who wait")
	for _, w := range waiting[2:] {
		r := w.whole()
		requireJSONError(t, r, http.StatusServiceUnavailable, "admission_queue_timeout")
		require.NotEmpty(t, r.Header.Get("Retry-After"))
	}
	close(h.release)
	require.Equal(t, http.StatusOK, waiting[1].whole().StatusCode)
	for _, body := range bodies[1:] {
		rest, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Contains(t, string(rest), "[DONE]")
	}
	require.LessOrEqual(t, h.busiest(), 4+1, "the permits, and the stream that was left, of whose end the engine hears a moment later")
	g.idle(t)
}

// idle waits until the gateway holds nothing of a request any more.
func (g *running) idle(t testing.TB) {
	t.Helper()
	g.quiet(t)
	g.queued(t, 0)
	g.until(t, func() bool { return g.gauge(t, "smg_admission_inflight") == 0 })
}

// C38: five hundred rounds of clients that leave while they wait, before the head and in mid-stream, and workers that reset and refuse
// connections, lose no permit.
func TestC38NoPermitIsLost(t *testing.T) {
	t.Parallel()
	h := newHolder()
	worker := startPuppet(t, h.play)
	g := startPuppets(t, func(c *Config) {
		c.MaxConcurrentRequests, c.QueueSize, c.QueueTimeout, c.RetryMaxRetries, c.DisableBreaker = 4, 3, 5, 1, true
	}, worker)
	h.does(func(a *act) {
		if strings.HasSuffix(a.Header.Get("X-Request-Id"), "headless") {
			<-a.gone
			return
		}
		h.hold(a)
	})
	rounds := 500
	if testing.Short() {
		rounds = 50
	}
	for round := range rounds {
		var clients []*wire
		if round%100 == 0 {
			clients = g.everywhere(t, h)
		} else {
			for i := range 7 {
				clients = append(clients, g.asks(t, []string{"", "headless"}[i%2], []string{chat, chats}[i%2]))
			}
		}
		for _, i := range rand.Perm(len(clients)) {
			clients[i].leave(rand.IntN(2) == 0)
		}
	}
	g.idle(t)

	h.does(func(a *act) {
		_ = a.conn.(*net.TCPConn).SetLinger(0)
		_ = a.conn.Close()
	})
	requireJSONError(t, g.post(t, chatPath, chat), http.StatusBadGateway, "call_upstream_request_error")
	refuses := startHTTPWorker(t, workerPlan{})
	g.enrol(t, refuses.URL, `"health":{"disable_health_check":true,"drain_settle_secs":0}`)
	h.does(func(a *act) { a.answer(chatAnswer) })
	g.serving(t, 2)
	refuses.Close() // nobody listens there any more
	statuses := map[int]int{}
	for range 14 {
		statuses[g.post(t, chatPath, chat).StatusCode]++
	}
	require.Equal(t, map[int]int{http.StatusOK: 7, http.StatusBadGateway: 7}, statuses)
	g.idle(t)
	require.Equal(t, http.StatusAccepted, g.do(t, http.MethodDelete, "/workers/"+g.worker(t, refuses.URL).ID().String(), "").StatusCode)
	g.until(t, func() bool { return g.gateway.registry.Len() == 1 })
	var all sync.WaitGroup
	for range 7 { // four and three: all at once
		c := g.asks(t, "good", chat)
		all.Go(func() {
			if r := c.whole(); r.StatusCode != http.StatusOK {
				t.Errorf("status %d: %v", r.StatusCode, r.Err)
			}
		})
	}
	all.Wait()
	g.idle(t)
}

// everywhere is clients in all three places that they may leave from: two in mid-stream, two before the head, three in the queue.
func (g *running) everywhere(t *testing.T, h *holder) (clients []*wire) {
	t.Helper()
	g.idle(t)
	for range 2 {
		c := g.asks(t, "", chats)
		_, err := io.ReadFull(c.read(t).Body, make([]byte, 1))
		require.NoError(t, err)
		clients = append(clients, c)
	}
	headless := len(h.came("headless")) + 2
	for range 2 {
		clients = append(clients, g.asks(t, "headless", chats))
	}
	g.until(t, func() bool { return len(h.came("headless")) == headless })
	for range 3 {
		clients = append(clients, g.asks(t, "", chat))
	}
	g.queued(t, 3)
	return clients
}

// http-dataplane.md, section 11.1: "free a queued waiter as soon as its client disconnects", with its body unread.
func TestC38AClientThatLeavesTheQueueIsNoticedWithItsBodyUnread(t *testing.T) {
	t.Parallel()
	h := newHolder()
	g := startPuppets(t, func(c *Config) { c.MaxConcurrentRequests, c.QueueSize, c.QueueTimeout = 1, 3, 600 }, startPuppet(t, h.play))
	s := g.asks(t, "s", chats)
	s.read(t)
	tests := []struct {
		name  string
		sent  int // of the body, in bytes
		total int
		reset bool
	}{
		{"with a small body", len(chat), len(chat), false},
		{"with half of a body", 20, len(chat), false},
		{"with more than a read takes", 60 << 10, 60 << 10, false},
		{"with more than the system takes in by itself", 192 << 10, 192 << 10, false},
		{"with a large body that never came", 10, 100 << 20, false},
		{"with a reset", 60 << 10, 100 << 20, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := g.dial(t)
			c.post(t, chatPath, tt.total, chat[:min(len(chat), tt.sent)]+strings.Repeat(" ", max(0, tt.sent-len(chat))))
			g.queued(t, 1)
			c.leave(tt.reset)
			g.queued(t, 0)
		})
	}
	close(h.release)
	s.leave(false)
	g.idle(t)
	require.Equal(t, []string{"s"}, h.came(""), "nobody else was let in")
}

// http-dataplane.md, section 1: "a request parked in the admission queue with a 10 MB body: gateway memory does not grow by 10 MB". Its
// client can send no more than the system buffers, until it is let in.
func TestC38ARequestThatWaitsIsNotRead(t *testing.T) {
	t.Parallel()
	h := newHolder()
	g := startPuppets(t, func(c *Config) { c.MaxConcurrentRequests, c.QueueTimeout = 1, 600 }, startPuppet(t, h.play))
	s := g.asks(t, "s", chats)
	s.read(t)
	large := `{"model":"m1","messages":[{"role":"user","content":"` + strings.Repeat("x", 16<<20) + `"}]}`
	c := g.dial(t)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.post(t, chatPath, len(large), large, "X-Request-Id: large")
	}()
	g.queued(t, 1)
	select {
	case <-sent:
		t.Error("the body was read")
	default:
	}
	s.leave(false)
	<-sent
	g.until(t, func() bool { return len(h.came("large")) == 1 })
	close(h.release)
	require.Equal(t, http.StatusOK, c.whole().StatusCode)
	g.idle(t)
}

// http-dataplane.md, section 11.1: "applies to the inference routes only", and to all of them, under one limit; on the messages route a
// refusal has the form of its clients (DECISIONS 26).
func TestAdmissionIsOneLimitForAllInferenceRoutes(t *testing.T) {
	h := newHolder()
	g := startPuppets(t, func(c *Config) { c.MaxConcurrentRequests, c.QueueSize = 1, 0 }, startPuppet(t, h.play))
	s := g.asks(t, "s", chats)
	s.read(t)
	for _, r := range inferenceRoutes {
		got := g.post(t, r.path, r.body+"}")
		require.Equal(t, http.StatusTooManyRequests, got.StatusCode, r.path)
		require.Equal(t, "admission_queue_full", got.Header.Get("X-SMG-Error-Code"), r.path)
		if r.path == "/v1/messages" {
			require.Contains(t, got.Body, `"type":"rate_limit_error"`)
		}
	}
	require.Equal(t, http.StatusOK, g.post(t, "/explain", chat).StatusCode, "a rehearsal takes no permit")
	close(h.release)
	s.leave(false)
	g.idle(t)
}

// DECISIONS 37: the limit, and that without one there is no admission at all.
func TestWithoutALimitThereIsNoAdmission(t *testing.T) {
	for limit, there := range map[int]bool{-1: true, 0: false, 7: true} {
		cfg := Default()
		cfg.MaxConcurrentRequests = limit
		var printed bytes.Buffer
		require.NoError(t, Pipelines(cfg, "", "text", &printed))
		require.Equal(t, there, strings.Contains(printed.String(), "admission"), "%d", limit)
	}
	cores := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cores)
	for _, tt := range []struct{ flag, cores, limit int }{{-1, 1, 4096}, {-1, 4, 4096}, {-1, 6, 6144}, {0, 6, 0}, {7, 6, 7}} {
		runtime.GOMAXPROCS(tt.cores)
		require.Equal(t, tt.limit, (&AdmissionConfig{MaxConcurrentRequests: tt.flag}).AdmissionLimit(), "%+v", tt)
	}
}
