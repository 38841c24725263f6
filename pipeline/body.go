package pipeline

// RequestBody is the body of a request: bytes that were read and scanned, or a reader that goes to the worker as it is.
type RequestBody struct {
	// Streamed tells that the body is not read before a worker is chosen: Bytes is empty, and forward reads from the client.
	// Then there is one attempt.
	Streamed bool
	// Reason is why it is streamed or not, as smg_router_request_body_path_total says it; "" where nobody decided.
	Reason string
	// Bytes is the body as the client wrote it, with the edits that stages have made. It is valid while the request lasts.
	Bytes []byte
	// ContentType is what the worker is told that the body is; "" is application/json.
	ContentType string
	// Peeked are the bytes of a streamed body that were read to look for a model; they go first.
	Peeked []byte
	// Stream tells that the client asked for a streamed answer.
	Stream bool
}

// RoutingPrompt is what a policy may know of a prompt: token ids, or text. Both are empty while no live policy asks for them.
type RoutingPrompt struct {
	Text   string
	Tokens []uint32
	Hinted bool // Tokens came from a header: they are only the head of the prompt
	// Partition is a digest of what keeps the engine's caches of equal prompts apart: a salt, an extra key, an adapter. 0: nothing.
	Partition uint64
}

// RoutingKey is the key that keeps related requests together; "" without one.
type RoutingKey struct {
	Value  string // 1 to 128 bytes of UTF-8
	Source KeySource
	Sent   string // the routing-key header as it was sent, where that is not the Value; else ""
}

// Header is the routing-key header as it was sent; "" if there was none.
func (k RoutingKey) Header() string {
	if k.Sent == "" && k.Source == HeaderKey {
		return k.Value
	}
	return k.Sent
}

// KeySource is where a routing key came from.
type KeySource uint8

// The sources of routing keys.
const (
	NoKey     KeySource = iota
	HeaderKey           // a routing-key header
	RIDKey              // the rid of the body
)
