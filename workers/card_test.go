package workers

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// workers.md sections 3 and 4
func TestModelIsTheFirstNameThatIsNotEmpty(t *testing.T) {
	tests := []struct {
		name   string
		cards  []Card
		labels map[string]string
		want   string
	}{
		{"the card wins", []Card{{ID: "card"}}, map[string]string{"served_model_name": "m1"}, "card"},
		{"the served name comes before the path", nil, map[string]string{"served_model_name": "m1", "model_path": "org/x"}, "m1"},
		{"the id comes before the path", nil, map[string]string{"model_id": "id", "model_path": "org/x"}, "id"},
		{"the path is better than nothing", nil, map[string]string{"model_path": "org/x"}, "org/x"},
		{"an empty name is skipped", nil, map[string]string{"served_model_name": "", "model_path": "org/x"}, "org/x"},
		{"an empty card is skipped", []Card{{}}, map[string]string{"model_path": "org/x"}, "org/x"},
		{"no name takes every model", nil, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSpec("http://w:1")
			s.Models, s.Labels = tt.cards, tt.labels
			require.Equal(t, tt.want, made(t, s).Model())
		})
	}
}

// workers.md section 3
func TestCardIsCompletedFromLabels(t *testing.T) {
	type labels = map[string]string
	tests := []struct {
		name   string
		labels labels
		card   *Card // nil: the user gave none
		want   Card
	}{
		{
			"the first length that is one",
			labels{"context_length": "x", "max_model_len": "4096", "max_total_tokens": "9000"},
			nil,
			Card{ID: "m", ModelType: defaultCapabilities, ContextLength: 4096},
		},
		{
			"a length of 0 is none",
			labels{"context_length": "0"},
			nil,
			Card{ID: "m", ModelType: defaultCapabilities},
		},
		{
			"names of things",
			labels{"tokenizer_path": "t", "tool_parser": "p", "reasoning_parser": "r", "model_type": "llama", "architectures": `["A"]`},
			nil,
			Card{ID: "m", ModelType: defaultCapabilities, TokenizerPath: "t", ToolParser: "p", ReasoningParser: "r", HFModelType: "llama", Architectures: []string{"A"}},
		},
		{
			"what the user gave stays",
			labels{"tokenizer_path": "t", "context_length": "9"},
			&Card{ID: "m", ModelType: Chat, TokenizerPath: "mine", ContextLength: 5},
			Card{ID: "m", ModelType: Chat, TokenizerPath: "mine", ContextLength: 5},
		},
		{"a reranker by its architecture", labels{"is_generation": "false", "architectures": `["XRerankModel"]`}, nil, Card{ID: "m", ModelType: Rerank, Architectures: []string{"XRerankModel"}}},
		{"a cross encoder", labels{"is_embedding": "true", "architectures": `["BertCrossEncoder"]`}, nil, Card{ID: "m", ModelType: Rerank, Architectures: []string{"BertCrossEncoder"}}},
		{"a reranker by its type", labels{"is_embedding": "true", "model_type": "jina_reranker"}, nil, Card{ID: "m", ModelType: Rerank, HFModelType: "jina_reranker"}},
		{"a type with crossencoder is none", labels{"is_embedding": "true", "model_type": "crossencoder"}, nil, Card{ID: "m", ModelType: Embeddings, HFModelType: "crossencoder"}},
		{"an embedding model", labels{"is_embedding": "true"}, nil, Card{ID: "m", ModelType: Embeddings}},
		{"a card of the user's keeps its type", labels{"is_embedding": "true"}, &Card{ID: "m"}, Card{ID: "m", ModelType: defaultCapabilities}},
		{"a model that sees", labels{"supports_vision": "true"}, nil, Card{ID: "m", ModelType: defaultCapabilities | Vision}},
		{"a model that understands images", labels{"has_image_understanding": "true"}, &Card{ID: "m", ModelType: Chat}, Card{ID: "m", ModelType: Chat | Vision}},
		{"a model that does not see", labels{"supports_vision": "false"}, nil, Card{ID: "m", ModelType: defaultCapabilities}},
		{"classes with names", labels{"id2label_json": `{"0":"no","1":"yes"}`, "num_labels": "3"}, nil, Card{ID: "m", ModelType: defaultCapabilities, ID2Label: map[int]string{0: "no", 1: "yes"}}},
		{"classes without names", labels{"num_labels": "2"}, nil, Card{ID: "m", ModelType: defaultCapabilities, NumLabels: 2, ID2Label: map[int]string{0: "LABEL_0", 1: "LABEL_1"}}},
		{"more classes than can be", labels{"num_labels": "4000000000"}, nil, Card{ID: "m", ModelType: defaultCapabilities}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSpec("http://w:1")
			if s.Labels = tt.labels; tt.card == nil {
				s.Labels["model_id"] = "m"
			} else {
				s.Models = []Card{*tt.card}
			}
			require.Equal(t, []Card{tt.want}, made(t, s).Spec().Models)
		})
	}
}

// workers.md sections 2 and 4
func TestKVLabelsBecomeFields(t *testing.T) {
	s := NewSpec("http://w:1")
	s.KVConnector = "MooncakeConnector"
	s.Labels = map[string]string{"kv_role": "kv_consumer"}
	s.underlay(map[string]string{"kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_engine_id": "", "tp_size": "2"})
	got := made(t, s).Spec()
	require.Equal(t, "MooncakeConnector", got.KVConnector, "a field wins")
	require.Equal(t, "kv_consumer", got.KVRole, "a label of the user's wins over the engine's")
	require.Empty(t, got.KVEngineID)
	require.Equal(t, map[string]string{"tp_size": "2"}, got.Labels)
	require.Contains(t, s.Labels, "kv_role", "the caller's map is left alone")
}

// workers.md section 3
func TestCapabilitiesAsNamesAndAsNumber(t *testing.T) {
	for body, want := range map[string]Capabilities{`["chat","moderation"]`: Chat | 2048, `3`: Chat | Completions, `[]`: defaultCapabilities, `null`: defaultCapabilities} {
		s, err := ParseSpec([]byte(`{"url":"http://w:1","models":[{"id":"m","model_type":` + body + `}]}`))
		require.NoError(t, err)
		require.Equal(t, want, s.Models[0].ModelType, body)
	}
	js, err := json.Marshal(Moderation | Chat | Tools)
	require.NoError(t, err)
	require.JSONEq(t, `["chat","tools","moderation"]`, string(js))
}
