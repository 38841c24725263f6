package stages

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// members is the least that a body of a kind must have; a row's members come behind them, and win.
var members = map[Kind]string{
	Chat:        `"model":"m","messages":[{"role":"user","content":"hi"}]`,
	Completions: `"model":"m","prompt":"hi"`,
	Messages:    `"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":8`,
	Responses:   `"model":"m","input":"hi"`,
	Rerank:      `"model":"m","query":"q","documents":["a"]`,
	V1Rerank:    `"query":"q","documents":["a"]`,
	Generate:    `"text":"hi"`,
	Embeddings:  `"input":"hi"`,
	Classify:    `"input":"hi"`,
	CountTokens: `"messages":[]`,
}

type violation struct {
	name    string
	members string // what the row adds to the least, or replaces
	code    string // empty: the body is good
	param   string
}

func checkViolations(t *testing.T, k Kind, tests []violation) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body := []byte(`{` + members[k] + `,` + tt.members + `}`)
			err := k.validate(body, scanned(t, string(body)))
			if tt.code == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Equal(t, []any{400, tt.code, tt.param, true}, []any{err.Status, err.Code, err.Param, err.Terminal})
			require.True(t, strings.HasSuffix(err.Message, ".") && !strings.Contains(err.Message, "\n"), "one sentence: %s", err.Message)
		})
	}
}

// samplingViolations hold on chat and on completions; http-dataplane.md, section 3.3
var samplingViolations = []violation{
	{"stream null is false", `"stream":null`, "", ""},
	{"stream as a text", `"stream":"true"`, "invalid_type", "stream"},
	{"stream as a number", `"stream":1`, "invalid_type", "stream"},
	{"temperature at its ends", `"temperature":2.0`, "", ""},
	{"temperature 0", `"temperature":0`, "", ""},
	{"a small temperature", `"temperature":1e-7`, "", ""},
	{"temperature 3", `"temperature":3`, "decimal_above_max_value", "temperature"},
	{"a temperature beyond all numbers", `"temperature":1e400`, "decimal_above_max_value", "temperature"},
	{"a negative temperature", `"temperature":-0.1`, "decimal_below_min_value", "temperature"},
	{"temperature -0.0", `"temperature":-0.0`, "", ""},
	{"temperature as a text", `"temperature":"0.5"`, "invalid_type", "temperature"},
	{"temperature null", `"temperature":null`, "", ""},
	{"top_p 1", `"top_p":1.0`, "", ""},
	{"top_p 0", `"top_p":0`, "decimal_below_min_value", "top_p"},
	{"a negative top_p", `"top_p":-1`, "decimal_below_min_value", "top_p"},
	{"top_p above 1", `"top_p":1.01`, "decimal_above_max_value", "top_p"},
	{"top_k -1", `"top_k":-1`, "", ""},
	{"top_k 1", `"top_k":1`, "", ""},
	{"top_k 0", `"top_k":0`, "integer_below_min_value", "top_k"},
	{"top_k -2", `"top_k":-2`, "integer_below_min_value", "top_k"},
	{"top_k 1.5", `"top_k":1.5`, "invalid_type", "top_k"},
	{"min_p 1", `"min_p":1`, "", ""},
	{"min_p above 1", `"min_p":1.1`, "decimal_above_max_value", "min_p"},
	{"a negative min_p", `"min_p":-0.1`, "decimal_below_min_value", "min_p"},
	{"frequency_penalty -2", `"frequency_penalty":-2`, "", ""},
	{"frequency_penalty below -2", `"frequency_penalty":-2.1`, "decimal_below_min_value", "frequency_penalty"},
	{"frequency_penalty above 2", `"frequency_penalty":2.1`, "decimal_above_max_value", "frequency_penalty"},
	{"presence_penalty above 2", `"presence_penalty":3`, "decimal_above_max_value", "presence_penalty"},
	{"presence_penalty below -2", `"presence_penalty":-3`, "decimal_below_min_value", "presence_penalty"},
	{"repetition_penalty 0", `"repetition_penalty":0`, "", ""},
	{"repetition_penalty above 2", `"repetition_penalty":2.5`, "decimal_above_max_value", "repetition_penalty"},
	{"a negative repetition_penalty", `"repetition_penalty":-1`, "decimal_below_min_value", "repetition_penalty"},
	{"one stop", `"stop":"\n"`, "", ""},
	{"four stops", `"stop":["a","b","c","d"]`, "", ""},
	{"no stops", `"stop":[]`, "", ""},
	{"five stops", `"stop":["a","b","c","d","e"]`, "array_above_max_length", "stop"},
	{"an empty stop", `"stop":""`, "string_below_min_length", "stop"},
	{"an empty stop among others", `"stop":["a",""]`, "string_below_min_length", "stop"},
	{"a stop that is a number", `"stop":[1]`, "invalid_type", "stop"},
	{"stop as a number", `"stop":1`, "invalid_type", "stop"},
	{"stream_options with stream", `"stream":true,"stream_options":{"include_usage":true}`, "", ""},
	{"stream_options without stream", `"stream_options":{"include_usage":true}`, "stream_options_requires_stream", "stream_options"},
	{"stream_options with stream false", `"stream":false,"stream_options":{}`, "stream_options_requires_stream", "stream_options"},
	{"stream_options null", `"stream_options":null`, "", ""},
	{"min_tokens up to max_tokens", `"min_tokens":5,"max_tokens":5`, "", ""},
	{"min_tokens above max_tokens", `"min_tokens":6,"max_tokens":5`, "min_tokens_exceeds_max", "min_tokens"},
	{"min_tokens alone", `"min_tokens":6`, "", ""},
	{"a negative min_tokens", `"min_tokens":-1`, "integer_below_min_value", "min_tokens"},
	{"unknown fields of any type", `"x_custom":{"a":[1]},"user":7,"metadata":null,"logit_bias":{"50256":-100},"seed":9007199254740993`, "", ""},
	{"whole numbers in other spellings", `"max_tokens":1E1,"n":1.0`, "", ""},
	{"max_tokens as a text", `"max_tokens":"5"`, "invalid_type", "max_tokens"},
	{"n 0", `"n":0`, "integer_below_min_value", "n"},
	{"no model", `"model":null`, "missing_required_parameter", "model"},
	{"a model that is not a text", `"model":7`, "invalid_type", "model"},
	{"an empty model is found nowhere later", `"model":""`, "", ""},
}

// http-dataplane.md, section 3.3; capture.md, section 2.2; cases.md C23; DECISIONS.md 53
func TestChatRules(t *testing.T) {
	checkViolations(t, Chat, samplingViolations)
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}],`
	checkViolations(t, Chat, []violation{
		{"no messages", `"messages":null`, "missing_required_parameter", "messages"},
		{"messages as a text", `"messages":"x"`, "invalid_type", "messages"},
		{"messages as an object", `"messages":{}`, "invalid_type", "messages"},
		{"empty messages", `"messages":[ ]`, "empty_array", "messages"},
		{"the last messages count", `"messages":[],"messages":[{"role":"user","content":"a"}]`, "", ""},
		{"content of all shapes", `"messages":[{"role":"user","content":""},{"role":"user","content":[]},{"role":"assistant","content":null,"tool_calls":[]},
			{"role":"assistant"},{"role":"developer","content":"d"},{"role":"tool","content":[{"type":"text","text":"t"}]},{"role":"function","content":"f"}]`, "", ""},
		{"max_tokens 0", `"max_tokens":0`, "integer_below_min_value", "max_tokens"},
		{"max_completion_tokens 0", `"max_completion_tokens":0`, "integer_below_min_value", "max_completion_tokens"},
		{"max_tokens beyond all numbers", `"max_tokens":1e400`, "", ""},
		{"n 10", `"n":10`, "", ""},
		{"n 11", `"n":11`, "integer_above_max_value", "n"},
		{"logprobs null is false", `"logprobs":null`, "", ""},
		{"logprobs as a number", `"logprobs":1`, "invalid_type", "logprobs"},
		{"top_logprobs with logprobs", `"logprobs":true,"top_logprobs":20`, "", ""},
		{"top_logprobs 21", `"logprobs":true,"top_logprobs":21`, "integer_above_max_value", "top_logprobs"},
		{"a negative top_logprobs", `"logprobs":true,"top_logprobs":-1`, "integer_below_min_value", "top_logprobs"},
		{"top_logprobs without logprobs", `"top_logprobs":2`, "top_logprobs_requires_logprobs", "top_logprobs"},
		{"top_logprobs with logprobs null", `"logprobs":null,"top_logprobs":2`, "top_logprobs_requires_logprobs", "top_logprobs"},
		{"min_tokens above max_completion_tokens", `"min_tokens":6,"max_tokens":9,"max_completion_tokens":5`, "min_tokens_exceeds_max", "min_tokens"},
		{"min_tokens up to max_completion_tokens", `"min_tokens":6,"max_tokens":5,"max_completion_tokens":6`, "", ""},
		{"a regex", `"regex":"a+","response_format":{"type":"text"}`, "", ""},
		{"a regex with a JSON format", `"regex":"a+","response_format":{"type":"json_object"}`, "regex_conflicts_with_json", "regex"},
		{"a grammar with a JSON schema format", `"ebnf":"g","response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, "ebnf_conflicts_with_json", "ebnf"},
		{"a regex and a grammar", `"regex":"a+","ebnf":"g"`, "multiple_structured_constraints", "regex"},
		{"a regex and a schema", `"regex":"a+","json_schema":"{}"`, "multiple_structured_constraints", "regex"},
		{"a regex and nothing", `"regex":"a+","ebnf":null`, "", ""},
		{"a schema with a JSON format", `"json_schema":"{}","response_format":{"type":"json_object"}`, "", ""},
		{"a schema with a name", `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}`, "", ""},
		{"a schema with an empty name", `"response_format":{"type":"json_schema","json_schema":{"name":"","schema":{}}}`, "json_schema_name_empty", "response_format"},
		{"a response format of another shape", `"response_format":"text"`, "", ""},
		{"tool_choice none without tools", `"tool_choice":"none"`, "", ""},
		{"tool_choice auto without tools", `"tool_choice":"auto"`, "", ""},
		{"tool_choice required without tools", `"tool_choice":"required"`, "tool_choice_requires_tools", "tool_choice"},
		{"tool_choice required with empty tools", `"tools":[],"tool_choice":"required"`, "tool_choice_requires_tools", "tool_choice"},
		{"empty tools", `"tools":[]`, "", ""},
		{"tools as an object", `"tools":{}`, "invalid_type", "tools"},
		{"tool_choice required with tools", tools + `"tool_choice":"required"`, "", ""},
		{"a function that is there", tools + `"tool_choice":{"type":"function","function":{"name":"f"}}`, "", ""},
		{"a function that is not there", tools + `"tool_choice":{"type":"function","function":{"name":"g"}}`, "tool_choice_function_not_found", "tool_choice"},
		{"a function without tools", `"tool_choice":{"type":"function","function":{"name":"g"}}`, "tool_choice_requires_tools", "tool_choice"},
		{"allowed tools", tools + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`, "", ""},
		{"allowed tools of a wrong mode", tools + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"any"}}`, "tool_choice_invalid_mode", "tool_choice"},
		{"allowed tools without a mode", tools + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":null}}`, "", ""},
		{"allowed tools of a wrong mode, flat", tools + `"tool_choice":{"type":"allowed_tools","mode":"any"}`, "tool_choice_invalid_mode", "tool_choice"},
		{"reasoning_effort as a text", `"reasoning_effort":"high"`, "", ""},
		{"reasoning_effort as a number", `"reasoning_effort":5`, "", ""},
		{"reasoning_effort null", `"reasoning_effort":null`, "", ""},
		{"reasoning_effort as an object", `"reasoning_effort":{}`, "invalid_type", "reasoning_effort"},
	})
}

// http-dataplane.md, section 3.3; capture.md, section 2.2; cases.md C24
func TestCompletionsRules(t *testing.T) {
	checkViolations(t, Completions, samplingViolations)
	checkViolations(t, Completions, []violation{
		{"no prompt", `"prompt":null`, "missing_required_parameter", "prompt"},
		{"a prompt that is neither text nor array", `"prompt":7`, "invalid_type", "prompt"},
		{"an empty prompt array", `"prompt":[]`, "prompt_empty", "prompt"},
		{"an empty batch is the engine's business", `"prompt":[[]]`, "", ""},
		{"an empty prompt", `"prompt":""`, "", ""},
		{"token ids", `"prompt":[1,2,3]`, "", ""},
		{"max_tokens 0", `"max_tokens":0`, "", ""},
		{"a negative max_tokens", `"max_tokens":-1`, "integer_below_min_value", "max_tokens"},
		{"n 128", `"n":128`, "", ""},
		{"n 129", `"n":129`, "integer_above_max_value", "n"},
		{"best_of 20", `"best_of":20`, "", ""},
		{"best_of 21", `"best_of":21`, "integer_above_max_value", "best_of"},
		{"logprobs 5", `"logprobs":5`, "", ""},
		{"logprobs 6", `"logprobs":6`, "integer_above_max_value", "logprobs"},
		{"logprobs true", `"logprobs":true`, "invalid_type", "logprobs"},
	})
}

// http-dataplane.md, section 3.3; capture.md, section 2.2
func TestMessagesRules(t *testing.T) {
	const tools = `"tools":[{"name":"f"}],`
	checkViolations(t, Messages, []violation{
		{"no model", `"model":null`, "missing_required_parameter", "model"},
		{"an empty model", `"model":""`, "invalid_value", "model"},
		{"no messages", `"messages":null`, "missing_required_parameter", "messages"},
		{"empty messages", `"messages":[]`, "empty_array", "messages"},
		{"no max_tokens", `"max_tokens":null`, "missing_required_parameter", "max_tokens"},
		{"max_tokens 0", `"max_tokens":0`, "integer_below_min_value", "max_tokens"},
		{"stream as a text", `"stream":"yes"`, "invalid_type", "stream"},
		{"tool_choice none without tools", `"tool_choice":{"type":"none"}`, "", ""},
		{"tool_choice auto without tools", `"tool_choice":{"type":"auto"}`, "tool_choice_requires_tools", "tool_choice"},
		{"tool_choice auto with tools", tools + `"tool_choice":{"type":"auto"}`, "", ""},
		{"a tool that is there", tools + `"tool_choice":{"type":"tool","name":"f"}`, "", ""},
		{"a tool that is not there", tools + `"tool_choice":{"type":"tool","name":"g"}`, "tool_choice_tool_not_found", "tool_choice"},
		{"a toolset without servers", `"tools":[{"type":"mcp_toolset"}]`, "mcp_toolset_requires_mcp_servers", "tools"},
		{"a toolset with no server", `"tools":[{"type":"mcp_toolset"}],"mcp_servers":[]`, "mcp_toolset_requires_mcp_servers", "tools"},
		{"a toolset with a server", `"tools":[{"type":"mcp_toolset"}],"mcp_servers":[{"name":"s"}]`, "", ""},
		{"a tool that only speaks of toolsets", `"tools":[{"name":"f","description":"mcp_toolset"}]`, "", ""},
		{"a temperature that chat would refuse", `"temperature":9`, "", ""},
	})
}

// http-dataplane.md, section 3.3; capture.md, section 2.2
func TestResponsesRules(t *testing.T) {
	checkViolations(t, Responses, []violation{
		{"no model", `"model":null`, "missing_required_parameter", "model"},
		{"no input", `"input":null`, "missing_required_parameter", "input"},
		{"an input that is neither text nor array", `"input":7`, "invalid_type", "input"},
		{"an empty text", `"input":""`, "input_text_empty", "input"},
		{"no items", `"input":[]`, "input_items_empty", "input"},
		{"items", `"input":[{"role":"user","content":"a"}]`, "", ""},
		{"max_output_tokens 0", `"max_output_tokens":0`, "integer_below_min_value", "max_output_tokens"},
		{"max_tool_calls 0", `"max_tool_calls":0`, "integer_below_min_value", "max_tool_calls"},
		{"temperature 3", `"temperature":3`, "decimal_above_max_value", "temperature"},
		{"top_p 0", `"top_p":0`, "decimal_below_min_value", "top_p"},
		{"frequency_penalty 3", `"frequency_penalty":3`, "decimal_above_max_value", "frequency_penalty"},
		{"presence_penalty -3", `"presence_penalty":-3`, "decimal_below_min_value", "presence_penalty"},
		{"top_logprobs 20", `"top_logprobs":20`, "", ""},
		{"top_logprobs 21", `"top_logprobs":21`, "integer_above_max_value", "top_logprobs"},
		{"unknown fields", `"store":true,"x":1`, "", ""},
	})
}

// http-dataplane.md, section 2.4
func TestRerankRules(t *testing.T) {
	common := []violation{
		{"no query", `"query":null`, "missing_required_parameter", "query"},
		{"a blank query", `"query":" \n"`, "invalid_value", "query"},
		{"no documents", `"documents":null`, "missing_required_parameter", "documents"},
		{"empty documents", `"documents":[]`, "invalid_value", "documents"},
		{"top_k 0", `"top_k":0`, "integer_below_min_value", "top_k"},
		{"top_k above the count", `"top_k":99`, "", ""},
		{"return_documents as a text", `"return_documents":"no"`, "invalid_type", "return_documents"},
		{"a list of rids", `"rid":["a"]`, "", ""},
	}
	checkViolations(t, Rerank, append(common,
		violation{"no model", `"model":null`, "missing_required_parameter", "model"},
		violation{"a query that is not a text", `"query":7`, "invalid_type", "query"},
		violation{"documents that are not texts", `"documents":["a",{"text":"b"}]`, "invalid_type", "documents"},
		violation{"documents as a text", `"documents":"a"`, "invalid_type", "documents"}))
	checkViolations(t, V1Rerank, append(common,
		violation{"documents of the engine's own shape", `"documents":[{"text":"b"}]`, "", ""}))
}

// http-dataplane.md, section 3.3: the engine takes what it takes.
func TestOtherRoutesHaveNoRules(t *testing.T) {
	for _, k := range []Kind{Generate, Embeddings, Classify, CountTokens} {
		for _, body := range []string{`{}`, `{"model":7,"input":null,"text":[],"temperature":"hot","stream":1,"max_tokens":-1}`} {
			require.Nil(t, k.validate([]byte(body), scanned(t, body)), "%d %s", k, body)
		}
	}
}
