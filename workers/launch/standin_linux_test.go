package launch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must come; it is for a broken program alone.
const patience = 30 * time.Second

// The stand-ins for an engine, and for a program that starts one.
func init() { roles["engine"], roles["parent"] = standIn, standInParent }

// standIn is an engine: it answers /health on the port that is its first argument, and behaves as the others say.
func standIn(args []string) {
	has := func(name string) bool { return strings.Contains(strings.Join(args[1:], " ")+" ", name+" ") }
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM) // first: tests take what it prints for the sign that it heeds signals
	fmt.Println("hello from", args[0])
	fmt.Fprintf(os.Stderr, "10%%\r20%%\rdone\nno end of line")
	switch {
	case has("child"):
		idler(nil)
	case has("stray"):
		idler(&syscall.SysProcAttr{Setsid: true})
	}
	if has("exit3") {
		os.Exit(3)
	}
	if !has("mute") {
		l, err := net.Listen("tcp", "127.0.0.1:"+args[0])
		if err != nil {
			os.Exit(4)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET /crash", func(http.ResponseWriter, *http.Request) { os.Exit(5) })
		mux.HandleFunc("GET /environ", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, os.Getenv("CUDA_VISIBLE_DEVICES"), " ", os.Getenv("PYTHONUNBUFFERED"))
		})
		go func() { _ = http.Serve(l, mux) }()
	}
	for range terms {
		if has("deaf") {
			continue
		}
		if dir := os.Getenv("SMG_TEST_DIR"); dir != "" {
			_ = os.WriteFile(filepath.Join(dir, "term-"+args[0]), nil, 0o600)
		}
		os.Exit(0)
	}
}

// idler starts a child that heeds no SIGTERM.
func idler(attr *syscall.SysProcAttr) {
	child := exec.Command(os.Args[0], "0", "mute", "deaf")
	child.SysProcAttr = attr
	child.Stdout, child.Stderr = os.Stdout, os.Stderr // keeps the pipes open
	if err := child.Start(); err != nil {
		os.Exit(6)
	}
}

// standInParent starts an engine and does nothing more: it is there to be killed.
func standInParent(args []string) {
	_ = os.Setenv(asStandIn, "engine")
	workers := []Worker{{URL: "http://127.0.0.1:" + args[0], Argv: append([]string{os.Args[0]}, args...), Env: os.Environ()}}
	f, err := Start(workers, Options{Stdout: io.Discard, Stderr: io.Discard, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = f.Ready(context.Background(), patience)
	}
	fmt.Println("ready", err)
	time.Sleep(time.Hour)
}

// buffer is a writer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// bench is what the tests of processes start workers with.
type bench struct {
	Options
	out, errs, log *buffer
	workers        []Worker
	dir            string
}

// plan makes workers that behave as told, one for each behaviour.
func plan(t *testing.T, behaviours ...string) *bench {
	t.Helper()
	b := &bench{out: &buffer{}, errs: &buffer{}, log: &buffer{}, dir: t.TempDir()}
	b.Options = Options{Stdout: b.out, Stderr: b.errs, Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Adopt: true}
	workers, err := Spec{
		Command: os.Args[0] + " {port}", Replicas: len(behaviours), Host: "127.0.0.1", BasePort: 31000,
		Environ: append(os.Environ(), asStandIn+"=engine", "SMG_TEST_DIR="+b.dir, "GORACE=atexit_sleep_ms=0"), // the race detector lets each process linger
	}.Plan()
	require.NoError(t, err)
	for i := range workers {
		workers[i].Argv = append(workers[i].Argv, strings.Fields(behaviours[i])...)
	}
	b.workers = workers
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("log:\n" + b.log.String() + "\nstderr:\n" + b.errs.String())
		}
	})
	return b
}

// started starts the workers; they are killed when the test ends.
func (b *bench) started(t *testing.T) *Fleet {
	t.Helper()
	f, err := Start(b.workers, b.Options)
	require.NoError(t, err)
	t.Cleanup(f.Kill)
	return f
}

// termed tells whether a worker was told to end, and did.
func (b *bench) termed(w Worker) bool {
	_, err := os.Stat(filepath.Join(b.dir, "term-"+strconv.Itoa(w.Port)))
	return err == nil
}

func get(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

// noChildren demands that no process is left. Start with Adopt made this process the parent of all orphans, so none can hide.
func noChildren(t *testing.T) {
	t.Helper()
	require.Empty(t, childrenOf(os.Getpid()), "processes are left behind")
}
