package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// brisk is smg with less patience for engines that do not end.
func brisk() {
	workerStopLimit = 200 * time.Millisecond
	main()
}

// standIn is an engine: standin PORT [--deaf] [--mute] [--exit3] [--gone] and whatever else. It writes what happens to it into
// files of the folder that SMG_TEST_DIR names, and holds its answer back until the file "finish" is there.
func standIn() {
	port, has := os.Args[1], func(flag string) bool { return slices.Contains(os.Args, flag) }
	note("args-"+port, strings.Join(os.Args[2:], " "))
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	note("up-"+port, "")
	if has("--exit3") {
		os.Exit(3)
	}
	if !has("--mute") {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			os.Exit(4)
		}
		go func() { _ = http.Serve(l, standInRoutes()) }()
	}
	if has("--gone") {
		go func() {
			await("crash")
			os.Exit(5)
		}()
	}
	for range terms {
		if !has("--deaf") {
			note("term-"+port, "")
			os.Exit(0)
		}
	}
}

func standInRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"n\":1}\n\n")
		_ = http.NewResponseController(w).Flush()
		await("finish")
		fmt.Fprint(w, "data: {\"n\":2}\n\ndata: [DONE]\n\n")
	})
	return mux
}

func note(name, text string) {
	_ = os.WriteFile(filepath.Join(os.Getenv("SMG_TEST_DIR"), name), []byte(text), 0o600)
}

func await(name string) {
	for {
		if _, err := os.Stat(filepath.Join(os.Getenv("SMG_TEST_DIR"), name)); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond) // in a process of its own, where there is nothing else to wait for
	}
}
