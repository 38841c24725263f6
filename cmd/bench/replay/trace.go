package replay

import (
	"bufio"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed testdata/*.gz
var traces embed.FS

const (
	blockTokens = 512  // tokens of a block of a trace
	tick        = 3000 // milliseconds; the two traces have no finer time
	maxTokens   = 1 << 22
)

// record is one line of a trace.
type record struct {
	Timestamp int64    `json:"timestamp"` // ms
	Input     int      `json:"input_length"`
	Output    int      `json:"output_length"`
	Blocks    []uint64 `json:"hash_ids"`
}

// embedded fills the workload with one of the traces that the program carries; length below 1 takes the first part alone.
func (w *Workload) embedded(name string, length float64) error {
	f, err := traces.Open("testdata/" + name)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.read(f, true, length)
}

// FromTrace is the workload of a trace file: one JSON object a line with timestamp (ms), input_length, output_length (tokens) and
// hash_ids (one for each block of 512 tokens); .gz is uncompressed. Requests of one timestamp are spread over the time to the next, at
// most 3 s.
func FromTrace(path string) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := shapes[0] // what goes for conversations
	w := &Workload{Name: "trace", Limit: s.limit, KVTokens: s.kvTokens, Guess: s.guess}
	if err := w.read(f, strings.HasSuffix(path, ".gz"), 1); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

func (w *Workload) read(in io.Reader, zipped bool, length float64) error {
	if zipped {
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = z
	}
	records, err := parseTrace(in)
	if err != nil {
		return err
	}
	w.alike, w.Page = 5, blockTokens
	w.Roots = spread(records[:max(1, int(min(1, length)*float64(len(records))))])
	w.Requests = len(w.Roots)
	w.normalize()
	return nil
}

// parseTrace reads the lines of a trace. The error names the line.
func parseTrace(in io.Reader) ([]record, error) {
	var records []record
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("line %d is no JSON object of a trace: %w", n, err)
		}
		if err := r.check(records); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, errors.New("no request in it")
	}
	return records, nil
}

func (r *record) check(before []record) error {
	switch {
	case r.Input < 1 || r.Input > maxTokens:
		return fmt.Errorf("input_length is %d; it must be 1 to %d", r.Input, maxTokens)
	case r.Output < 0 || r.Output > maxTokens:
		return fmt.Errorf("output_length is %d; it must be 0 to %d", r.Output, maxTokens)
	case len(r.Blocks) != (r.Input+blockTokens-1)/blockTokens:
		return fmt.Errorf("%d hash_ids for %d tokens; there must be one for each %d", len(r.Blocks), r.Input, blockTokens)
	case r.Timestamp < 0 || len(before) > 0 && r.Timestamp < before[len(before)-1].Timestamp:
		return errors.New("timestamp goes back")
	}
	return nil
}

// spread makes requests of the records, those of one timestamp evenly over the time to the next, at most a tick.
func spread(records []record) []*Request {
	all := make([]*Request, 0, len(records))
	for first := 0; first < len(records); {
		end := first
		for end < len(records) && records[end].Timestamp == records[first].Timestamp {
			end++
		}
		width := int64(tick)
		if end < len(records) {
			width = min(width, records[end].Timestamp-records[first].Timestamp)
		}
		for k := first; k < end; k++ {
			at := float64(records[k].Timestamp) + float64(width)*float64(k-first)/float64(end-first)
			all = append(all, &Request{Prompt: records[k].prompt(), Output: max(1, records[k].Output), At: at})
		}
		first = end
	}
	return all
}

// prompt is a segment for each block. An id stands for its block and all in front of it.
func (r *record) prompt() []Segment {
	segments := make([]Segment, len(r.Blocks))
	left := r.Input
	for i, id := range r.Blocks {
		segments[i] = Segment{id, min(left, blockTokens)}
		left -= blockTokens
	}
	return segments
}
