package clustertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Compact makes etcd forget all that is not current: a watch, or the rest of a list, that wants to go on from before is answered
// 410 Gone, if the API server does not remember by itself (--watch-cache=false).
func (c *Cluster) Compact(tb TB) {
	tb.Helper()
	var status struct {
		Header struct{ Revision string }
	}
	if err := c.etcdAsk("maintenance/status", `{}`, &status); err != nil {
		tb.Fatal(err)
	}
	if err := c.etcdAsk("kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, status.Header.Revision), nil); err != nil {
		tb.Fatal(err)
	}
}

// etcdAsk calls a method of etcd by its JSON gateway. A nil answer is not read.
func (c *Cluster) etcdAsk(method, body string, answer any) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Post(fmt.Sprintf("http://127.0.0.1:%d/v3/%s", c.etcdPort, method), "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to %s: %s", resp.Status, method, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}
