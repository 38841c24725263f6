package stages

import (
	"bytes"

	"github.com/smg-go/smg/pipeline"
)

func streamOptionsNeedStream(body []byte, f *fieldSet) *pipeline.Error {
	if fieldBool(body, f, fieldStream) {
		return nil
	}
	return badRequest("stream_options_requires_stream", "stream_options", "'stream_options' is allowed only when 'stream' is true.")
}

func topLogprobsNeedLogprobs(body []byte, f *fieldSet) *pipeline.Error {
	if fieldBool(body, f, fieldLogprobs) {
		return nil
	}
	return badRequest("top_logprobs_requires_logprobs", "top_logprobs", "'top_logprobs' is allowed only when 'logprobs' is true.")
}

// minTokensFit compares with the limit that the engine will heed: max_completion_tokens, if there is one, before max_tokens.
func minTokensFit(body []byte, f *fieldSet) *pipeline.Error {
	limit := fieldMaxCompletionTokens
	if !f.has(limit) {
		limit = fieldMaxTokens
	}
	least, _ := numberOf(f.raw(body, fieldMinTokens))
	if most, ok := numberOf(f.raw(body, limit)); ok && least > most {
		return badRequest("min_tokens_exceeds_max", "min_tokens", "'min_tokens' must not be above '"+limit.String()+"'.")
	}
	return nil
}

// oneConstraint refuses two ways of saying what the output must look like.
func oneConstraint(body []byte, f *fieldSet) *pipeline.Error {
	var first field
	count := 0
	for _, id := range []field{fieldJSONSchema, fieldEBNF, fieldRegex} {
		if f.has(id) {
			first = id
			count++
		}
	}
	if count > 1 {
		return badRequest("multiple_structured_constraints", first.String(), "Only one of 'regex', 'ebnf' and 'json_schema' may be given.")
	}
	format := memberOf(f.raw(body, fieldResponseFormat), "type")
	if first == fieldJSONSchema || !stringEquals(format, "json_object") && !stringEquals(format, "json_schema") {
		return nil
	}
	if first == fieldEBNF {
		return conflictsWithJSON("ebnf_conflicts_with_json", first)
	}
	return conflictsWithJSON("regex_conflicts_with_json", first)
}

func conflictsWithJSON(code string, id field) *pipeline.Error {
	return badRequest(code, id.String(), "'"+id.String()+"' may not be combined with a JSON 'response_format'.")
}

func schemaHasName(body []byte, f *fieldSet) *pipeline.Error {
	format := f.raw(body, fieldResponseFormat)
	if !stringEquals(memberOf(format, "type"), "json_schema") {
		return nil
	}
	if !stringEquals(memberOf(memberOf(format, "json_schema"), "name"), "") {
		return nil
	}
	return badRequest("json_schema_name_empty", "response_format", "'response_format' must give its JSON schema a name.")
}

// chatToolChoice checks tool_choice. "auto" without tools is what an engine does anyway, and clients send it.
func chatToolChoice(body []byte, f *fieldSet) *pipeline.Error {
	choice, tools := f.raw(body, fieldToolChoice), f.raw(body, fieldTools)
	if stringEquals(choice, "none") || stringEquals(choice, "auto") {
		return nil
	}
	if noTools(tools) {
		return toolChoiceNeedsTools()
	}
	kind := memberOf(choice, "type")
	switch {
	case stringEquals(kind, "function"):
		name, ok := stringOf(memberOf(memberOf(choice, "function"), "name"))
		if !ok {
			return nil
		}
		named := func(tool []byte) bool { return stringEquals(memberOf(memberOf(tool, "function"), "name"), name) }
		if !anyElement(tools, named) {
			return toolNotFound("tool_choice_function_not_found")
		}
	case stringEquals(kind, "allowed_tools"):
		return allowedToolsMode(choice)
	}
	return nil
}

// allowedToolsMode takes the mode from where chat has it, or from where the Responses API has it.
func allowedToolsMode(choice []byte) *pipeline.Error {
	mode := memberOf(memberOf(choice, "allowed_tools"), "mode")
	if mode == nil {
		mode = memberOf(choice, "mode")
	}
	if mode == nil || stringEquals(mode, "auto") || stringEquals(mode, "required") {
		return nil
	}
	return badRequest("tool_choice_invalid_mode", "tool_choice", "The mode of 'tool_choice' must be 'auto' or 'required'.")
}

func messagesToolChoice(body []byte, f *fieldSet) *pipeline.Error {
	choice, tools := f.raw(body, fieldToolChoice), f.raw(body, fieldTools)
	kind := memberOf(choice, "type")
	if stringEquals(kind, "none") {
		return nil
	}
	if noTools(tools) {
		return toolChoiceNeedsTools()
	}
	name, ok := stringOf(memberOf(choice, "name"))
	if !ok || !stringEquals(kind, "tool") {
		return nil
	}
	if !anyElement(tools, func(tool []byte) bool { return stringEquals(memberOf(tool, "name"), name) }) {
		return toolNotFound("tool_choice_tool_not_found")
	}
	return nil
}

// toolsetsHaveServers looks into the tools only if their bytes hold the word.
func toolsetsHaveServers(body []byte, f *fieldSet) *pipeline.Error {
	tools, servers := f.raw(body, fieldTools), f.raw(body, fieldMCPServers)
	if !bytes.Contains(tools, []byte("mcp_toolset")) || len(servers) > 0 && !isEmpty(servers) {
		return nil
	}
	if !anyElement(tools, func(tool []byte) bool { return stringEquals(memberOf(tool, "type"), "mcp_toolset") }) {
		return nil
	}
	return badRequest("mcp_toolset_requires_mcp_servers", "tools", "A tool of type 'mcp_toolset' needs 'mcp_servers'.")
}

func noTools(tools []byte) bool { return len(tools) == 0 || isEmpty(tools) }

func toolChoiceNeedsTools() *pipeline.Error {
	return badRequest("tool_choice_requires_tools", "tool_choice", "'tool_choice' is allowed only when 'tools' are given.")
}

func toolNotFound(code string) *pipeline.Error {
	return badRequest(code, "tool_choice", "'tool_choice' names a tool that is not in 'tools'.")
}
