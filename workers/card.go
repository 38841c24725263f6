package workers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Card describes one model that a worker serves. What the user leaves out is completed from labels at registration.
type Card struct {
	ID              string          `json:"id"`
	DisplayName     string          `json:"display_name,omitempty"`
	Aliases         []string        `json:"aliases,omitempty"`
	ModelType       Capabilities    `json:"model_type"`
	HFModelType     string          `json:"hf_model_type,omitempty"`
	Architectures   []string        `json:"architectures,omitempty"`
	Provider        string          `json:"provider,omitempty"`
	ContextLength   uint32          `json:"context_length,omitempty"` // tokens; 0 is unknown
	TokenizerPath   string          `json:"tokenizer_path,omitempty"`
	ChatTemplate    string          `json:"chat_template,omitempty"`
	ReasoningParser string          `json:"reasoning_parser,omitempty"`
	ToolParser      string          `json:"tool_parser,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
	ID2Label        map[int]string  `json:"id2label,omitempty"`
	NumLabels       uint32          `json:"num_labels,omitempty"`
}

// Capabilities is a set of things that a model can do.
type Capabilities uint16

// The capabilities.
const (
	Chat Capabilities = 1 << iota
	Completions
	Responses
	Embeddings
	Rerank
	Generate
	Vision
	Tools
	Reasoning
	ImageGen
	Audio
	Moderation
)

// defaultCapabilities are those of a model of which nothing is known.
const defaultCapabilities = Chat | Completions | Responses | Tools

var capabilities = []string{
	"chat", "completions", "responses", "embeddings", "rerank", "generate", "vision", "tools", "reasoning", "image_gen", "audio", "moderation",
}

// Names are the capabilities' names, in the order of their bits.
func (c Capabilities) Names() []string {
	names := make([]string, 0, 4)
	for i, name := range capabilities {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// MarshalJSON writes the names as a list.
func (c Capabilities) MarshalJSON() ([]byte, error) { return json.Marshal(c.Names()) }

// capabilitiesOf reads a list of names, or the set as a number.
func capabilitiesOf(o *object, name string) Capabilities {
	if raw := o.fields[name]; len(raw) > 0 && raw[0] != '[' {
		if n := whole[uint16](o, name, 0, 1<<len(capabilities)-1); n != nil {
			return Capabilities(*n)
		}
		return defaultCapabilities
	}
	var set Capabilities
	for _, s := range o.texts(name) {
		i := slices.Index(capabilities, s)
		if i < 0 {
			o.fail(name, fmt.Sprintf("'%s' is not one of %s", s, strings.Join(capabilities, ", ")))
			return 0
		}
		set |= 1 << i
	}
	if set == 0 {
		return defaultCapabilities
	}
	return set
}

func cardOf(o *object) Card {
	c := Card{
		ID: o.text("id"), DisplayName: o.text("display_name"), Aliases: o.texts("aliases"), ModelType: capabilitiesOf(o, "model_type"),
		HFModelType: o.text("hf_model_type"), Architectures: o.texts("architectures"), Provider: o.text("provider"),
		TokenizerPath: o.text("tokenizer_path"), ChatTemplate: o.text("chat_template"),
		ReasoningParser: o.text("reasoning_parser"), ToolParser: o.text("tool_parser"),
	}
	if c.ID == "" {
		o.fail("id", "it is required and must not be empty")
	}
	c.Metadata, _ = read[json.RawMessage](o, "metadata", "any JSON", nil)
	set(&c.ContextLength, o.count("context_length", 0))
	set(&c.NumLabels, o.count("num_labels", 0))
	c.ID2Label, _ = read[map[int]string](o, "id2label", "an object of numbers with strings", nil)
	return c
}

// complete fills what the card leaves open from the worker's labels. derived tells that the user gave no card at all: only
// then may the labels say what kind of model it is.
func (c *Card) complete(labels map[string]string, derived bool) {
	fill := func(to *string, label string) {
		if *to == "" {
			*to = labels[label]
		}
	}
	fill(&c.TokenizerPath, "tokenizer_path")
	fill(&c.ToolParser, "tool_parser")
	fill(&c.ReasoningParser, "reasoning_parser")
	fill(&c.HFModelType, "model_type")
	if len(c.Architectures) == 0 {
		_ = json.Unmarshal([]byte(labels["architectures"]), &c.Architectures) // a label that is no list leaves it empty
	}
	if c.ContextLength == 0 {
		c.ContextLength = contextLength(labels)
	}
	if len(c.ID2Label) == 0 {
		c.nameLabels(labels)
	}
	if c.ModelType == 0 {
		c.ModelType = defaultCapabilities
	}
	switch {
	case derived && (labels["is_embedding"] == "true" || labels["is_generation"] == "false"):
		c.ModelType = Embeddings
		if c.isReranker() {
			c.ModelType = Rerank
		}
	case labels["supports_vision"] == "true" || labels["has_image_understanding"] == "true":
		c.ModelType |= Vision
	}
}

func contextLength(labels map[string]string) uint32 {
	for _, label := range []string{"context_length", "max_context_length", "max_model_len", "max_total_tokens", "max_seq_len"} {
		if n, err := strconv.ParseUint(labels[label], 10, 32); err == nil && n > 0 {
			return uint32(n)
		}
	}
	return 0
}

// nameLabels names the classes of a classifier.
func (c *Card) nameLabels(labels map[string]string) {
	if json.Unmarshal([]byte(labels["id2label_json"]), &c.ID2Label) == nil && len(c.ID2Label) > 0 {
		return
	}
	const most = 10_000 // what an engine says must not cost the gateway its memory
	c.ID2Label = nil
	n, err := strconv.ParseUint(labels["num_labels"], 10, 32)
	if err != nil || n == 0 || n > most {
		return
	}
	c.NumLabels, c.ID2Label = uint32(n), make(map[int]string, n)
	for i := range int(n) {
		c.ID2Label[i] = "LABEL_" + strconv.Itoa(i)
	}
}

func (c *Card) isReranker() bool {
	for _, a := range c.Architectures {
		if a = strings.ToLower(a); strings.Contains(a, "rerank") || strings.Contains(a, "crossencoder") {
			return true
		}
	}
	return strings.Contains(strings.ToLower(c.HFModelType), "rerank")
}
