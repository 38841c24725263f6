package workers

// Status is where a worker stands in its life. Only a ready worker may be chosen.
type Status int32

// The states of a worker.
const (
	Pending  Status = iota // registered, not yet known to work
	Ready                  // may be chosen
	NotReady               // its health checks fail
	Failed                 // its health checks have failed for long
	Draining               // about to be removed: finishes what it has, gets nothing new
)

// String is the status as the API, logs and metrics name it.
func (s Status) String() string {
	return [...]string{"pending", "ready", "not_ready", "failed", "draining"}[s]
}

// MarshalText is String, for JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Type is the part that a worker plays.
type Type uint8

// The types of workers.
const (
	Regular Type = iota // serves whole requests
	Prefill             // computes prompts for a decode worker
	Decode              // generates from what a prefill worker computed
	Encode              // encodes images for a prefill worker
)

var types = []string{"regular", "prefill", "decode", "encode"}

// String is the type as the API, logs and metrics name it.
func (t Type) String() string { return types[t] }

// MarshalText is String, for JSON.
func (t Type) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// ParseType reads a type as [Type.String] writes it.
func ParseType(s string) (Type, bool) { return member[Type](types, s) }

// Mode is how a worker is spoken to.
type Mode uint8

// The connection modes.
const (
	HTTP Mode = iota
	GRPC
	ZMQ
)

// String is the mode as the API, logs and metrics name it.
func (m Mode) String() string { return [...]string{"http", "grpc", "zmq"}[m] }

// MarshalText is String, for JSON.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
