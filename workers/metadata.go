package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/big"
	"net/http"
	"strconv"
	"strings"
)

// What is taken from an engine's answers. Nothing else is: server arguments contain secrets.
var (
	serverInfoKeys = []string{
		"model_id", "model_path", "served_model_name", "tp_size", "dp_size", "pp_size", "load_balance_method", "disaggregation_mode",
		"version", "is_embedding", "context_length", "max_total_tokens", "max_total_num_tokens", "max_running_requests",
		"weight_version",
	}
	modelInfoKeys = []string{
		"model_path", "tokenizer_path", "is_generation", "has_image_understanding", "has_audio_understanding", "model_type", "architectures",
	}
)

// metadata is what the engine says of itself, as labels. complete is false if a question got no answer and may be asked again.
func (i *interview) metadata(ctx context.Context, r Runtime) (labels map[string]string, complete bool) {
	i.failure = nil
	labels = map[string]string{}
	switch r {
	case SGLang:
		i.readSGLang(ctx, labels)
	case VLLM:
		i.readModels(ctx, labels)
		version := flatten(i.askIf2xx(ctx, pathVersion))
		keep(labels, version, "version")
	default: // what a gateway answers elsewhere describes one engine behind it, not the gateway
		i.readModels(ctx, labels)
	}
	return labels, i.failure == nil
}

func (i *interview) readSGLang(ctx context.Context, labels map[string]string) {
	info := flatten(i.askEither(ctx, pathServerInfo, pathOldServerInfo))
	keep(labels, info, serverInfoKeys...)
	if model := info["model"]; model != "" && labels["model_id"] == "" {
		labels["model_id"] = model
	}
	keep(labels, flatten(i.askEither(ctx, pathModelInfo, pathOldModelInfo)), modelInfoKeys...)
	i.readModels(ctx, labels)
}

// readModels fills what is missing from the first entry of the list of models.
func (i *interview) readModels(ctx context.Context, labels map[string]string) {
	first, _ := firstModel(i.ask(ctx, pathModels))
	if strings.HasPrefix(first["max_model_len"], "-") {
		delete(first, "max_model_len")
	}
	for from, to := range map[string]string{"id": "served_model_name", "root": "model_path", "max_model_len": "max_model_len"} {
		if v := first[from]; v != "" && labels[to] == "" {
			labels[to] = v
		}
	}
}

// askEither asks the old route if, and only if, the new one is not there.
func (i *interview) askEither(ctx context.Context, path, old string) []byte {
	if a := i.ask(ctx, path); a.status != http.StatusNotFound {
		if !a.ok() {
			return nil
		}
		return a.body
	}
	return i.askIf2xx(ctx, old)
}

func (i *interview) askIf2xx(ctx context.Context, path string) []byte {
	if a := i.ask(ctx, path); a.ok() {
		return a.body
	}
	return nil
}

func keep(labels, from map[string]string, keys ...string) {
	for _, k := range keys {
		if v, ok := from[k]; ok {
			labels[k] = v
		}
	}
}

// flatten turns a JSON object into labels: strings that say something, numbers but 0, booleans, lists as compact JSON. The
// rest is dropped. It gives no labels for what is no object.
func flatten(body []byte) map[string]string {
	var fields map[string]json.RawMessage
	if len(body) == 0 || json.Unmarshal(body, &fields) != nil {
		return nil
	}
	labels := make(map[string]string, len(fields))
	for k, raw := range fields {
		if v := flattenValue(raw); v != "" {
			labels[k] = v
		}
	}
	return labels
}

func flattenValue(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		var s string
		if _ = json.Unmarshal(raw, &s); s == "null" {
			return ""
		}
		return s
	case 't', 'f':
		return string(raw)
	case '[':
		var list bytes.Buffer
		if json.Compact(&list, raw) != nil || list.String() == "[]" {
			return ""
		}
		return list.String()
	case '{', 'n':
		return ""
	}
	return flattenNumber(string(raw))
}

// flattenNumber writes integers without a point or an exponent, whatever the engine wrote, and every digit of large ones.
func flattenNumber(text string) string {
	if n, ok := new(big.Int).SetString(text, 10); ok && len(text) < 40 {
		if n.Sign() == 0 {
			return ""
		}
		return n.String()
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f == 0 {
		return ""
	}
	const exact = 1 << 53
	if f == math.Trunc(f) && math.Abs(f) < exact {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
