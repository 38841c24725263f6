package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// allRegistered waits until the gateway at that URL has all these workers and they are healthy; false if ctx ends before. It
// asks for the workers, not for readiness, because another gateway may have the port: that one does not know these workers.
func allRegistered(ctx context.Context, gateway string, urls []string) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // a connection left open would hold up the shutdown
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		healthy, err := healthyWorkers(ctx, client, gateway)
		missing := func(url string) bool { return !slices.Contains(healthy, url) }
		if err == nil && !slices.ContainsFunc(urls, missing) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

// healthyWorkers are the URLs of the gateway's workers that may be chosen.
func healthyWorkers(ctx context.Context, client *http.Client, gateway string) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+"/workers", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct {
		Workers []struct {
			URL       string `json:"url"`
			IsHealthy bool   `json:"is_healthy"`
		} `json:"workers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, err
	}
	var urls []string
	for _, w := range list.Workers {
		if w.IsHealthy {
			urls = append(urls, w.URL)
		}
	}
	return urls, nil
}
