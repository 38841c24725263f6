package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Fault is something that the engine does wrong, or does otherwise than it would. The zero value changes nothing; the parts may
// be combined. Which requests it hits: see Path, Method, Probability and Count.
type Fault struct {
	// Path is the path it applies to; with a * at its end, a prefix. Empty means every POST, so that probes go on succeeding.
	Path string `json:"path,omitempty"`
	// Method is the method it applies to; empty means any (of a path that is given).
	Method string `json:"method,omitempty"`
	// Probability is the share of fitting requests that it hits, 0 to 1; 0 means all.
	Probability float64 `json:"probability,omitempty"`
	// Count is how many requests it hits before it is spent; 0 means no end.
	Count int `json:"count,omitempty"`

	// Status of the answer; alone, with an error of the engine's shape as its body.
	Status int `json:"status,omitempty"`
	// RetryAfter is the value of the header Retry-After: seconds or a date.
	RetryAfter Text `json:"retry_after,omitempty"`
	// Headers are added to the answer, or take the place of the engine's content-type, server or date.
	Headers Headers `json:"headers,omitempty"`
	// Body takes the place of the answer's. In JSON a string is the body itself, anything else is sent as the JSON it is.
	Body Text `json:"body,omitempty"`
	// Chunks take the place of the answer: each is a chunk and a write of its own, the time between tokens apart. They count as events.
	Chunks []string `json:"chunks,omitempty"`

	// HangHeadMillis is a wait before the answer's head; -1 is for ever, which is until the peer leaves.
	HangHeadMillis int `json:"hang_head_ms,omitempty"`
	// HangAfterEvents stops the answer after so many events; a body that is no stream is one event.
	HangAfterEvents *int `json:"hang_after_events,omitempty"`
	// HangMillis is how long HangAfterEvents lasts; 0 is for ever.
	HangMillis int `json:"hang_ms,omitempty"`

	// CutAfterBytes and CutAfterEvents close the connection after so much of the body.
	CutAfterBytes  *int `json:"cut_after_bytes,omitempty"`
	CutAfterEvents *int `json:"cut_after_events,omitempty"`
	// Reset closes with a TCP reset: at the cut, or without an answer if there is no cut.
	Reset bool `json:"reset,omitempty"`
	// Close closes the connection without an answer.
	Close bool `json:"close,omitempty"`
	// CloseAfterHead closes a connection when the head of its second or a later request is in, without an answer.
	CloseAfterHead bool `json:"close_after_head,omitempty"`

	// Malformed garbles the answer: Garbled...
	Malformed Garble `json:"malformed,omitempty"`

	// TTFTMillis and ITLMillis take the place of the engine's times to the first and between tokens; 0 leaves them.
	TTFTMillis int `json:"ttft_ms,omitempty"`
	ITLMillis  int `json:"itl_ms,omitempty"`
}

// Garble is a way to make an answer malformed.
type Garble string

// The ways to make an answer malformed. In JSON, true is GarbledJSON.
const (
	GarbledJSON  Garble = "json"  // the body is half of the right one; of a stream, the second event
	GarbledHead  Garble = "head"  // the status line is none, and the connection is closed
	GarbledChunk Garble = "chunk" // the size of the second chunk is no number, and the connection is closed
)

// UnmarshalJSON accepts true, false and the names of the ways.
func (g *Garble) UnmarshalJSON(b []byte) error {
	switch s := strings.Trim(string(b), `"`); s {
	case "true":
		*g = GarbledJSON
	case "false", "null", "":
		*g = ""
	case string(GarbledJSON), string(GarbledHead), string(GarbledChunk):
		*g = Garble(s)
	default:
		return fmt.Errorf("malformed: %s is none of true, json, head, chunk", b)
	}
	return nil
}

// Text is a string that may be written as any JSON: of a JSON string it is what the string says, else the JSON itself.
type Text string

// UnmarshalJSON accepts any value; null is empty.
func (t *Text) UnmarshalJSON(b []byte) error {
	switch {
	case bytes.HasPrefix(b, []byte(`"`)):
		return json.Unmarshal(b, (*string)(t))
	case bytes.Equal(b, []byte("null")):
		*t = ""
	default:
		*t = Text(b)
	}
	return nil
}

// Headers are header lines ("Name: value"), in order.
type Headers []string

// UnmarshalJSON accepts a list of lines, or an object whose values are a string or a list of strings; it is put in order of name.
func (h *Headers) UnmarshalJSON(b []byte) error {
	var lines []string
	if json.Unmarshal(b, &lines) == nil {
		*h = lines
		return nil
	}
	var object map[string]Text
	if err := json.Unmarshal(b, &object); err != nil {
		return errors.New(`headers: want {"Name":"value"}, {"Name":["value",...]} or ["Name: value",...]`)
	}
	*h = nil
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var values []string
		if json.Unmarshal([]byte(object[name]), &values) != nil {
			values = []string{string(object[name])}
		}
		for _, v := range values {
			*h = append(*h, name+": "+v)
		}
	}
	return nil
}

// has tells whether one of the lines is of that (lower-case) name.
func (h Headers) has(name string) bool {
	return slices.ContainsFunc(h, func(line string) bool {
		return len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(line[:len(name)], name)
	})
}

// valid refuses header lines that are none, which would garble an answer that is not asked to be.
func (f *Fault) valid() error {
	for _, line := range f.Headers {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken([]byte(name)) || strings.ContainsAny(value, "\r\n") {
			return fmt.Errorf("headers: %q is no header line", line)
		}
	}
	if strings.ContainsAny(string(f.RetryAfter), "\r\n") {
		return fmt.Errorf("retry_after: %q is no header value", string(f.RetryAfter))
	}
	if f.Status != 0 && (f.Status < 200 || f.Status > 999) {
		return fmt.Errorf("status: %d is not within 200 to 999", f.Status)
	}
	return nil
}

// parseFaults reads one fault or a list of them. An unknown field is an error: a misspelt fault would be a test that cannot fail.
func parseFaults(b []byte) ([]Fault, error) {
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return nil, errors.New("want a fault or a list of faults")
	}
	if !bytes.HasPrefix(b, []byte("[")) {
		b = slices.Concat([]byte("["), b, []byte("]"))
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	var faults []Fault
	if err := dec.Decode(&faults); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, errors.New("more than one JSON value")
	}
	for i := range faults {
		if err := faults[i].valid(); err != nil {
			return nil, err
		}
	}
	return faults, nil
}

// faultSet is the set in force; nil costs a request one load.
type faultSet struct {
	armed atomic.Pointer[[]*armedFault]

	mu   sync.Mutex
	dice *rand.Rand // draws for faults with a probability
}

// seed makes the draws repeatable; 0 does not.
func (s *faultSet) seed(n uint64) {
	if n == 0 {
		n = rand.Uint64()
	}
	s.dice = rand.New(rand.NewPCG(n, 0))
}

func (s *faultSet) draw() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dice.Float64()
}

type armedFault struct {
	Fault
	hits atomic.Int64
}

func (s *faultSet) replace(faults []Fault) {
	if len(faults) == 0 {
		s.armed.Store(nil)
		return
	}
	armed := make([]*armedFault, len(faults))
	for i := range faults {
		armed[i] = &armedFault{Fault: faults[i]}
	}
	s.armed.Store(&armed)
}

func (s *faultSet) list() []Fault {
	faults := []Fault{}
	if armed := s.armed.Load(); armed != nil {
		for _, f := range *armed {
			faults = append(faults, f.Fault)
		}
	}
	return faults
}

// pick returns the first fault that hits the nth request (from 1) of a connection, or nil.
func (s *faultSet) pick(h *head, nth int) *Fault {
	armed := s.armed.Load()
	if armed == nil {
		return nil
	}
	for _, f := range *armed {
		if f.fits(h, nth) && s.hits(f) {
			return &f.Fault
		}
	}
	return nil
}

func (f *Fault) fits(h *head, nth int) bool {
	if f.CloseAfterHead && nth < 2 {
		return false
	}
	if f.Method != "" && f.Method != string(h.method) {
		return false
	}
	if f.Path == "" {
		return f.Method != "" || string(h.method) == "POST"
	}
	if prefix, ok := strings.CutSuffix(f.Path, "*"); ok {
		return strings.HasPrefix(string(h.path), prefix)
	}
	return f.Path == string(h.path)
}

func (s *faultSet) hits(f *armedFault) bool {
	if f.Probability > 0 && s.draw() >= f.Probability {
		return false
	}
	return f.Count <= 0 || f.hits.Add(1) <= int64(f.Count)
}
