package server

// explanation is what the code does not say of an error: when a client gets it, and what the reader does about it.
type explanation struct{ code, when, do string }

// explained is a part of docs/errors.md. do is the advice for codes without one of their own.
type explained struct {
	title, intro, do string
	codes            []explanation
}

// explanations has every code once; TestPageOfErrors tells which one is missing or no longer minted.
var explanations = []explained{
	{
		"The request", "What is wrong before anybody has looked into the body.", "",
		[]explanation{
			{"malformed_request", "What the client sent is no HTTP request, or one that two readers could understand in two ways: lines that end without CR, folded header fields, more than one length.", "Look at the client, and at proxies between; the message says what is wrong. The connection is closed."},
			{"request_headers_too_large", "The head of the request is longer than 1 MiB.", "Send fewer or shorter headers."},
			{"unsupported_transfer_encoding", "The body is transferred in a way that the gateway does not know.", "Send it with `Content-Length`, or `Transfer-Encoding: chunked`."},
			{"unsupported_http_version", "The client does not speak HTTP/1.0, HTTP/1.1 or, over TLS, HTTP/2.", "Use one of these."},
			{"unknown_url", "No route has this path.", "Correct the path; `smg pipelines` lists the routes."},
			{"method_not_allowed", "The path is known, the method is not.", "Use a method from the `Allow` header."},
			{"json_parse_error", "The `Content-Type` of an inference request is not JSON.", "Send `Content-Type: application/json`."},
			{"invalid_multipart", "The `Content-Type` of a transcription is not `multipart/form-data` with a boundary, or its body is not such a form.", "Send a form, and let the HTTP library write it."},
			{"unsupported_content_encoding", "The body is compressed, and the gateway would have to read it.", "Send the body as it is, without `Content-Encoding`."},
			{"request_body_too_large", "The body is longer than `--max-payload-size`, by its declared length or while it is read.", "Send less, or raise `--max-payload-size`."},
			{"request_body_stalled", "The client sent nothing of the body for `--stream-body-stall-timeout-secs`, or so slowly that an attempt ran out of time.", "Look at the client and the network between; it may send the request again."},
			{"request_body_aborted", "The body ended before its declared length, or its chunks are malformed.", "Look at the client, and at proxies between."},
		},
	},
	{
		"Who may ask", "Which routes ask for what is in [access](access.md).", "",
		[]explanation{
			{"invalid_api_key", "The request has no `Authorization: Bearer` with a key, or with another one than the route asks for. On routes for operators also a token that is not valid; the message says why.", "Send the right key. `x-api-key` is not read."},
			{"admin_role_required", "The key or token is known, and its role on routes for operators is `user`.", "Ask with a key of an admin; for tokens look at `--jwt-role-claim` and `--jwt-role-mapping`."},
		},
	},
	{
		"Too many requests", "Nobody has looked into the body yet, and no worker was asked. `Retry-After` is how long the queue takes to drain as fast as it " +
			"has lately, 1 to 60 s; 2 s as long as that is not known.", "",
		[]explanation{
			{"admission_queue_full", "As many requests are served as `--max-concurrent-requests` allows, and as many wait as `--queue-size` does.", "Wait as `Retry-After` says. If the engines could do more, raise the flags; `smg_admission_queue_depth` shows the queue."},
			{"admission_queue_timeout", "The request has waited for `--queue-timeout-secs` to be let in.", "Wait as `Retry-After` says. If it stays, the engines are too slow for what is asked of them."},
		},
	},
	{
		"The body", "Rules of the API that the gateway checks before it asks a worker. Fields that no rule names may be anything. On routes of the engines' own " +
			"(`/generate`, `/v1/embeddings`, `/v1/classify`) only the first two can happen.",
		"Correct the field that `param` names.",
		[]explanation{
			{"invalid_json", "The body is not one JSON value and nothing else.", "Correct what makes the body; the usual causes are a cut, a comma at the end, and text behind the JSON."},
			{"invalid_type", "The body is not an object, or a field has a value of the wrong type.", ""},
			{"invalid_value", "A field has the right type and a value that means nothing, such as a blank query.", ""},
			{"missing_required_parameter", "A field that the route needs is absent or null.", ""},
			{"empty_array", "A list that needs an element has none, such as `messages`.", ""},
			{"prompt_empty", "`prompt` is an empty array.", ""},
			{"input_text_empty", "`input` is an empty string.", ""},
			{"input_items_empty", "`input` is an empty array.", ""},
			{"integer_below_min_value", "A whole number is below its least value.", ""},
			{"integer_above_max_value", "A whole number is above its greatest value.", ""},
			{"decimal_below_min_value", "A number is below its least value, or at one that must be exceeded.", ""},
			{"decimal_above_max_value", "A number is above its greatest value.", ""},
			{"array_above_max_length", "A list is too long, such as `stop` with more than four sequences.", ""},
			{"string_below_min_length", "A text that needs a character has none, such as a sequence in `stop`.", ""},
			{"min_tokens_exceeds_max", "`min_tokens` is above `max_completion_tokens` or, without that, `max_tokens`.", ""},
			{"stream_options_requires_stream", "`stream_options` is given and `stream` is not true.", ""},
			{"top_logprobs_requires_logprobs", "`top_logprobs` is given and `logprobs` is not true.", ""},
			{"multiple_structured_constraints", "More than one of `regex`, `ebnf` and `json_schema` is given.", ""},
			{"regex_conflicts_with_json", "`regex` is combined with a JSON `response_format`.", ""},
			{"ebnf_conflicts_with_json", "`ebnf` is combined with a JSON `response_format`.", ""},
			{"json_schema_name_empty", "The JSON schema of `response_format` has an empty name.", ""},
			{"tool_choice_requires_tools", "`tool_choice` asks for a tool and there are no `tools`.", ""},
			{"tool_choice_function_not_found", "`tool_choice` names a function that is not among `tools` (chat).", ""},
			{"tool_choice_tool_not_found", "`tool_choice` names a tool that is not among `tools` (messages).", ""},
			{"tool_choice_invalid_mode", "The mode of allowed tools is neither `auto` nor `required`.", ""},
			{"mcp_toolset_requires_mcp_servers", "A tool is of type `mcp_toolset` and `mcp_servers` is absent or empty (messages).", ""},
		},
	},
	{
		"The model and its workers", "Nobody can take the request, now or at all.", "",
		[]explanation{
			{"missing_model", "The gateway serves several models (`--enable-igw`) and the request names none.", "Name a model in the body."},
			{"model_not_found", "Workers are registered, and none of them serves this model.", "`GET /v1/models` lists what is served; names are case-sensitive. `--model-alias` adds a name."},
			{"request_preparation_failed", "The worker is one data-parallel rank of its engine, and the body is no JSON object that could say which.", "Send a JSON object."},
			{"dp_aware_not_supported", "A form was sent, and the model is served by data-parallel ranks alone, which forms cannot be told apart for.", "Register the engine without ranks as well, or send such requests to the engine."},
			{"no_available_workers", "Workers serve the model and none of them may be chosen: unhealthy, draining, or behind an open circuit breaker; or no worker is registered at all. The message counts the reasons.", "Wait as `Retry-After` says. If it stays, look at `GET /workers` and the log."},
			{"worker_overload_protection_shed", "Every worker that serves is over a ceiling of its load, or the chosen one went over it just before it was sent the request.", "Wait as `Retry-After` says: no verdict changes sooner. Add workers, or raise the ceilings."},
			{"no_models_available", "`GET /v1/models` was asked and no worker is registered.", "Wait until one is, or register one."},
			{"no_workers", "A route that any worker can answer (`/health_generate`, `/get_model_info`, `/get_server_info`, `/engine_metrics`) found none.", "Wait until a worker is ready; `GET /workers` shows their states."},
			{"no_worker_response", "`GET /engine_metrics` was asked and no engine gave its metrics.", "Ask an engine's `/metrics` itself; the log at level debug has a line for each."},
		},
	},
	{
		"The worker", "A worker was chosen, and something went wrong between it and the gateway. Which one it was is in the header `x-smg-routed-worker-id` if it had begun to answer, and always in " +
			"the log. What a worker answers by itself, whatever its status, is relayed as it is and has none of these codes.", "",
		[]explanation{
			{"call_upstream_connection_failed", "Nobody accepts connections at the worker's address.", "See whether the engine runs, and whether its URL is right."},
			{"call_upstream_request_error", "The worker closed the connection before a byte of an answer; the request was sent a second time if that was safe.", "Look at the engine's log: it has probably crashed or restarted."},
			{"call_upstream_timeout", "One attempt took longer than `--request-timeout-secs`, or than the worker's own limit.", "Look at the worker's load. Raise the limit if answers may take that long."},
			{"call_upstream_builder_error", "The request cannot be written for this worker, because of its URL.", "Correct the URL that the worker is registered with."},
			{"read_response_body_failed", "The worker's answer broke off before anything of it had gone to the client.", "Look at the engine's log."},
			{"upstream_response_too_large", "An answer that must be read whole is longer than `--max-payload-size`.", "Ask for less, or raise `--max-payload-size`."},
			{"rerank_response_build_failed", "The worker's answer to a rerank request is not a list of results.", "See whether the engine serves a reranker, and its log."},
			{"stream_error", "The worker's answer broke off, or its time ran out, when a part of it had gone to the client. The status is already out, so the code is seen in the last event of the stream (if the bytes so far end between two events), in metrics and in the log; then the connection is cut, so that nobody takes the answer for whole.", "Send the request again; look at the engine's log."},
		},
	},
	{
		"The gateway", "", "",
		[]explanation{
			{"internal_error", "A defect of smg: a stage failed in a way that it must not.", "Report it, with the lines that the log has for the request id."},
			{"client_closed_request", "The client left before the answer was complete. It is not sent, for nobody is there: metrics and log have it.", "Nothing, unless many leave: then look at their time limits, and at the time to the first token."},
		},
	},
	{
		"The worker API", "Answers of `/workers` and `/workers/{worker_id}`, for operators.", "",
		[]explanation{
			{"BAD_REQUEST", "The body is not JSON or says nothing that can be registered, the `Content-Type` is not JSON, or the id is no UUID.", "Correct what the message names."},
			{"WORKER_NOT_FOUND", "No worker with this id is registered or being registered.", "`GET /workers` lists the ids."},
			{"WORKER_ALREADY_EXISTS", "A worker with this URL is registered.", "Nothing, or remove it first."},
			{"WORKER_CREATE_IN_PROGRESS", "A worker with this URL is being registered.", "Poll the id that the message names."},
			{"INTERNAL_SERVER_ERROR", "The queue of changes is full or, because the gateway is shutting down, stopped; or the gateway has a defect.", "Ask again, or another replica; the message says which."},
		},
	},
}
