package clustertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// object is anything of the API as JSON.
type object = map[string]any

// The content types of patches.
const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
	applyType = "application/apply-patch+yaml"
)

// admin asks the API server with all rights, for one test.
type admin struct {
	cluster *Cluster
	client  *http.Client
}

func (c *Cluster) admin(tb TB) *admin {
	client, done := c.client()
	tb.Cleanup(done)
	return &admin{cluster: c, client: client}
}

// must asks and reads the answer into a value, which may be nil. Whatever is not 2xx ends the test.
func (a *admin) must(tb TB, method, path, contentType string, body, answer any) {
	tb.Helper()
	status, text, err := a.ask(method, path, contentType, body)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	if status/100 != 2 {
		tb.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	if answer == nil {
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		tb.Fatalf("%s %s: %v in %s", method, path, err, text)
	}
}

// ask sends a value as JSON; nil is no body.
func (a *admin) ask(method, path, contentType string, body any) (status int, answer []byte, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequest(method, a.cluster.URL+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+a.cluster.token)
	req.Header.Set("Content-Type", contentType)
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// each calls f for 0 to n-1, a few at once. An f that ends its goroutine, as a failing test does, holds nobody up.
func each(n int, f func(i int)) {
	const atOnce = 16
	var wg sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	for i := range n {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			f(i)
		})
	}
	wg.Wait()
}

func podPath(namespace, name string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", namespace, name)
}
