package workers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxAnswer is how much of an engine's answer is read: enough for any of the routes that are asked.
const maxAnswer = 1 << 20

// clients ask engines. They go by no proxy, follow no redirect and send no user agent.
type clients struct{ http1, http2 *http.Client }

// newClients makes the clients. keep tells whether connections are kept for the next question; then close frees them.
func newClients(keep bool) clients {
	return clients{http1: newClient(keep, false), http2: newClient(keep, true)}
}

func newClient(keep, http2 bool) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, Protocols: &protocols,
			DisableKeepAlives: !keep, DisableCompression: true,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: 5 * time.Second, // as long as one registration asks
			TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c clients) close() {
	c.http1.CloseIdleConnections()
	c.http2.CloseIdleConnections()
}

// engine is an engine that can be asked over HTTP.
type engine struct {
	client    *http.Client
	base, key string
}

// to is the engine at an endpoint. Every question carries the worker's own key, if it has one.
func (c clients) to(e *Endpoint, key string, http2 bool) engine {
	if http2 {
		return engine{c.http2, e.Base, key}
	}
	return engine{c.http1, e.Base, key}
}

// answer is what an engine said. The zero answer is none.
type answer struct {
	status int
	body   []byte
}

func (a answer) ok() bool { return a.status >= 200 && a.status <= 299 }

// get asks for a path. Any status is an answer; no answer, or one longer than maxAnswer, is an error.
func (e engine) get(ctx context.Context, path string) (answer, error) {
	return e.read(ctx, path, maxAnswer)
}

// read is get for answers that may be longer.
func (e engine) read(ctx context.Context, path string, most int64) (answer, error) {
	res, err := e.send(ctx, path)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("GET %s: %w", path, err)
	case int64(len(body)) > most:
		return answer{}, fmt.Errorf("GET %s: the answer is longer than %d bytes", path, most)
	}
	return answer{res.StatusCode, body}, nil
}

// probe asks whether the engine is healthy: any 2xx within the time limit of ctx.
func (e engine) probe(ctx context.Context, path string) error {
	res, err := e.send(ctx, path)
	if err != nil {
		return err
	}
	_ = res.Body.Close() // unread: the head is the answer
	if a := (answer{status: res.StatusCode}); !a.ok() {
		return fmt.Errorf("GET %s: status %d", path, res.StatusCode)
	}
	return nil
}

func (e engine) send(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	req.Header.Set("User-Agent", "") // none
	req.Header.Set("Accept", "*/*")
	if e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key)
	}
	res, err := e.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("GET %s: no answer within the time limit", path)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // without the URL: the log line names the worker
	}
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return res, nil
}
