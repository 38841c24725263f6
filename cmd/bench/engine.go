package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// answers are what both engines say to a gateway that wants to know what they are.
var answers = map[string]string{
	"/health":          "OK",
	"/v1/models":       `{"object":"list","data":[{"id":"m","object":"model","created":1700000000,"owned_by":"vllm","root":"m","max_model_len":1048576}]}`,
	"/version":         `{"version":"0.11.0"}`,
	"/get_server_info": `{"model_path":"m"}`,
	"/get_model_info":  `{"model_path":"m"}`,
	"/server_info":     `{"model_path":"m"}`,
	"/model_info":      `{"model_path":"m"}`,
}

// engineCmd runs the streaming engine until it is told to stop.
type engineCmd struct{}

// Run listens on a port that the system picks, and prints its address.
func (engineCmd) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, l.Addr())
	return serveEngine(ctx, l)
}

// serveEngine answers each chat request with a stream of max_tokens events: one soon, and after a pause 100 a second, each in a
// write of its own, as an engine does that has one token at a time. It also answers the questions of gateways. It returns when
// the context is done and all connections are closed.
//
// It is not built on net/http: what the engine costs, the peers cannot use.
func serveEngine(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			_ = serveConnection(conn) // the client's end of the connection is where a failure is counted
		})
	}
}

func serveConnection(conn net.Conn) error {
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return err
		}
		if req.URL.Path == "/v1/chat/completions" {
			err = streamChat(conn, body)
		} else {
			err = answer(conn, req.URL.Path)
		}
		if err != nil || req.Close {
			return err
		}
	}
}

func answer(w io.Writer, path string) error {
	text, found := answers[path]
	status := http.StatusOK
	if !found {
		status, text = http.StatusNotFound, `{"detail":"Not Found"}`
	}
	_, err := fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(text), text)
	return err
}

func streamChat(w io.Writer, body []byte) error {
	var chat struct {
		MaxTokens           int `json:"max_tokens"`
		MaxCompletionTokens int `json:"max_completion_tokens"` // some gateways replace the older name
	}
	if err := json.Unmarshal(body, &chat); err != nil {
		return errors.Join(err, answer(w, "bad request"))
	}
	// No engine has its first token sooner, and a proxy on net/http (Traefik was seen to) cuts the odd stream that begins while it
	// is still at the last byte of the request.
	time.Sleep(time.Second / eventsPerSecond)
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n"
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	chunk, stamp := eventChunk()
	start := time.Now().Add(opening)
	for i := range max(chat.MaxTokens, chat.MaxCompletionTokens) {
		if i > 0 { // by an absolute schedule: a late event does not make all that follow late
			time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / eventsPerSecond)))
		}
		strconv.AppendInt(stamp[:0], time.Now().UnixNano(), 10)
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
	return err
}

// eventChunk returns a chunk of about 220 bytes that holds one event, and the place in it for the stamp.
func eventChunk() (chunk, stamp []byte) {
	const before, after = `data: {` + stampPrefix, `","object":"chat.completion.chunk","created":1700000000,"model":"m",` +
		`"system_fingerprint":"fp_bench","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	size := fmt.Sprintf("%x\r\n", len(before)+stampDigits+len(after))
	at := len(size) + len(before)
	chunk = fmt.Appendf(nil, "%s%s%0*d%s\r\n", size, before, stampDigits, 0, after)
	return chunk, chunk[at : at+stampDigits : at+stampDigits]
}
