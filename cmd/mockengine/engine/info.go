package engine

import (
	"encoding/json"
	"time"
)

const plainType = "text/plain; charset=utf-8"

// Versions and sizes that the engines claim.
const (
	vllmVersion   = "0.32.0"
	sglangVersion = "0.5.23"
	contextLength = 32768
	kvTokens      = 262144 // what the KV cache could hold
	maxRunning    = 256
)

type object = map[string]any

// sendValue answers with a value as JSON, for the routes that nobody asks often.
func (c *conn) sendValue(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return c.refuse(500, "InternalServerError", err.Error(), "")
	}
	return c.send(200, jsonType, b)
}

// healthy answers the health routes: 200 and nothing else.
func (e *Engine) healthy(c *conn) error { return c.send(200, "", nil) }

func (e *Engine) version(c *conn) error { return c.sendValue(object{"version": vllmVersion}) }

// serverLoad is vLLM's /load.
func (e *Engine) serverLoad(c *conn) error {
	return c.sendValue(object{"server_load": e.counters.inFlight.Load()})
}

func (e *Engine) listModels(c *conn) error {
	type card struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Created     int64  `json:"created"` // the time of the call, as real engines have it
		OwnedBy     Kind   `json:"owned_by"`
		Root        string `json:"root"`
		Parent      any    `json:"parent"`
		MaxModelLen int    `json:"max_model_len"`
	}
	cards := make([]card, len(e.cfg.Models))
	for i, m := range e.cfg.Models {
		cards[i] = card{m, "model", time.Now().Unix(), e.cfg.Engine, m, nil, contextLength}
	}
	return c.sendValue(object{"object": "list", "data": cards})
}

// serverInfo is SGLang's /server_info and /get_server_info.
func (e *Engine) serverInfo(c *conn) error {
	l, _ := e.load()
	return c.sendValue(object{
		"model_path": e.cfg.Models[0], "served_model_name": e.cfg.Models[0], "tokenizer_path": e.cfg.Models[0],
		"tp_size": 1, "dp_size": 1, "pp_size": 1, "load_balance_method": "round_robin", "disaggregation_mode": "null",
		"is_embedding": false, "context_length": contextLength, "max_total_num_tokens": l.Capacity,
		"max_running_requests": l.RunningLimit, "weight_version": "default", "version": sglangVersion, "status": "ready",
	})
}

// modelInfo is SGLang's /model_info and /get_model_info.
func (e *Engine) modelInfo(c *conn) error {
	return c.sendValue(object{
		"model_path": e.cfg.Models[0], "tokenizer_path": e.cfg.Models[0], "is_generation": true,
		"preferred_sampling_params": nil, "weight_version": "default", "has_image_understanding": false,
		"has_audio_understanding": false, "model_type": "llama", "architectures": []string{"LlamaForCausalLM"},
	})
}

// flushCache is SGLang's /flush_cache.
func (e *Engine) flushCache(c *conn) error {
	if e.driver != nil {
		e.driver.flush()
	}
	return c.send(200, plainType, []byte("Cache flushed.\n"))
}
