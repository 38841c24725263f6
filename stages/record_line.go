package stages

// RequestRecord is one line of a recording, as JSON. Its first four fields are those of the public traces that simulators of inference
// engines read; the others are left out where there is nothing to say.
//
// Nothing of a request can be read from it: hashes are made with a key that is drawn when the recording begins, and never written.
type RequestRecord struct {
	Timestamp int64    `json:"timestamp"`     // ms from the start of the recording to the request's arrival
	Input     int      `json:"input_length"`  // tokens of the prompt: its token ids, else a quarter of its characters; at least 1
	Output    int      `json:"output_length"` // tokens of the answer: as the worker says, else an estimate
	Blocks    []uint64 `json:"hash_ids"`      // one below 2^53 for each RecordBlock tokens begun; equal ones are equal prompts up to and with that block

	PromptTokens int64  `json:"prompt_tokens,omitempty"` // tokens of the prompt as the worker says
	Key          string `json:"key,omitempty"`           // hash of the routing key
	Model        string `json:"model,omitempty"`         // canonical id of the model, if somebody serves it
	Route        string `json:"route,omitempty"`         // path
	Status       int    `json:"status,omitempty"`        // of the response; 499 is a client that left
	Stream       bool   `json:"stream,omitempty"`        // the answer was a stream
	Recording    int64  `json:"recording,omitempty"`     // when the recording began, Unix time in ms; hashes of different recordings do not match
}

const (
	// RecordBlock is how many tokens of a prompt one hash of a [RequestRecord] stands for.
	RecordBlock = 512

	charsOfToken = 4
	mostTokens   = 1 << 22 // more are recorded as that many
)
