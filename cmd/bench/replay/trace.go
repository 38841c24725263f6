package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/smg-go/smg/stages"
)

//go:embed *.jsonl.gz
var traces embed.FS

const (
	blockTokens = stages.RecordBlock
	tick        = 3000 // milliseconds; the two traces have no finer time
	maxTokens   = 1 << 22
)

// Trace is the requests of a trace file, or of a recording of the gateway, in the order in which they came.
type Trace struct {
	records []stages.RequestRecord
	Refused int // requests that were answered 4xx and are left out: they were no work. A client that left (499) is no refusal
	Torn    int // lines that were cut, as a crash leaves them, and are left out
}

// embedded fills the workload with one of the traces that the program carries; length below 1 takes the first part alone.
func (w *Workload) embedded(name string, length float64) error {
	f, err := traces.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	t, err := ReadTrace(z)
	if err != nil {
		return err
	}
	t.records = t.records[:max(1, int(min(1, length)*float64(len(t.records))))]
	t.fill(w)
	return nil
}

// FromTrace is the workload of a trace file; .gz is uncompressed. See [ReadTrace].
func FromTrace(path string) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	t, err := ReadTrace(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t.Workload(), nil
}

// ReadTrace reads one JSON object a line with timestamp (ms), input_length, output_length (tokens) and hash_ids (one for each block of 512
// tokens); see [stages.RequestRecord] for what else it may have. Lines may be in any order. Several recordings in one file follow each
// other without the time between them. The error names the line.
func ReadTrace(in io.Reader) (*Trace, error) {
	t := &Trace{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if line[0] == '{' && line[len(line)-1] != '}' {
			t.Torn++
			continue
		}
		if err := t.add(line); err != nil {
			return nil, fmt.Errorf("line %d %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t.records) == 0 && t.Refused > 0 {
		return nil, errors.New("no request in it that was not refused")
	}
	if len(t.records) == 0 {
		return nil, errors.New("no request in it")
	}
	t.order()
	return t, nil
}

func (t *Trace) add(line []byte) error {
	var r stages.RequestRecord
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("is no JSON object of a trace: %w", err)
	}
	switch {
	case r.Input < 1 || r.Input > maxTokens:
		return fmt.Errorf("has an input_length of %d; it must be 1 to %d", r.Input, maxTokens)
	case r.Output < 0 || r.Output > maxTokens:
		return fmt.Errorf("has an output_length of %d; it must be 0 to %d", r.Output, maxTokens)
	case len(r.Blocks) != (r.Input+blockTokens-1)/blockTokens:
		return fmt.Errorf("has %d hash_ids for %d tokens; there must be one for each %d", len(r.Blocks), r.Input, blockTokens)
	case r.Timestamp < 0 || r.Timestamp > math.MaxInt64>>12:
		return fmt.Errorf("has a timestamp of %d; it must be at least 0, in ms", r.Timestamp)
	}
	if r.Status >= 400 && r.Status < 499 {
		t.Refused++
		return nil
	}
	t.records = append(t.records, r)
	return nil
}

// order puts the requests in the order of their coming, from time 0: a recording has them in the order of their end.
func (t *Trace) order() {
	slices.SortStableFunc(t.records, func(a, b stages.RequestRecord) int {
		return cmp.Or(cmp.Compare(a.Recording, b.Recording), cmp.Compare(a.Timestamp, b.Timestamp))
	})
	var began, last, recording int64
	for i := range t.records {
		r := &t.records[i]
		if i == 0 || r.Recording != recording {
			began, recording = r.Timestamp-last, r.Recording
		}
		r.Timestamp -= began
		last = r.Timestamp
	}
}

// Len is the number of requests.
func (t *Trace) Len() int { return len(t.records) }

// Models are the names of the models in it, those with most requests first, and how many each has. "" are requests that name none.
func (t *Trace) Models() (names []string, requests map[string]int) {
	requests = map[string]int{}
	for _, r := range t.records {
		requests[r.Model]++
	}
	names = slices.SortedFunc(maps.Keys(requests), func(a, b string) int {
		return cmp.Or(cmp.Compare(requests[b], requests[a]), strings.Compare(a, b))
	})
	return names, requests
}

// Only is the part of the trace that is of one model.
func (t *Trace) Only(model string) *Trace {
	kept := slices.DeleteFunc(slices.Clone(t.records), func(r stages.RequestRecord) bool { return r.Model != model })
	return &Trace{records: kept}
}

// Summary is what a trace is like.
type Summary struct {
	Requests       int
	Lasts          time.Duration // from the first request's coming to the last one's
	Prompt, Output float64       // tokens, on average
	Repeated       float64       // share of the prompts' tokens that an earlier request began with too: what a cache without limits would find
}

// Summary adds the requests up.
func (t *Trace) Summary() Summary {
	s := Summary{Requests: len(t.records)}
	seen := map[uint64]bool{}
	prompt, output, repeated := 0, 0, 0
	for _, r := range t.records {
		prompt, output = prompt+r.Input, output+r.Output
		for i, id := range r.Blocks {
			if seen[id] {
				repeated += min(blockTokens, r.Input-i*blockTokens)
			}
			seen[id] = true
		}
		s.Lasts = time.Duration(r.Timestamp) * time.Millisecond
	}
	if s.Requests > 0 {
		n := float64(s.Requests)
		s.Prompt, s.Output, s.Repeated = float64(prompt)*t.measure()/n, float64(output)/n, float64(repeated)/float64(prompt)
	}
	return s
}

// Workload is what the trace's clients did.
func (t *Trace) Workload() *Workload {
	s := shapes[0] // what goes for conversations
	w := &Workload{Name: "trace", Limit: s.limit, KVTokens: s.kvTokens, Guess: s.guess}
	t.fill(w)
	return w
}

func (t *Trace) fill(w *Workload) {
	w.alike, w.Page = 5, max(1, int(math.Round(blockTokens*t.measure())))
	w.Roots = t.spread(w.Page)
	w.Requests = len(w.Roots)
	if w.Requests == 0 {
		return
	}
	if last := w.Roots[len(w.Roots)-1].At; last > 0 {
		w.Rate = 1000 * float64(w.Requests) / last
	}
	w.normalize()
}

// measure is how many tokens of the engine stand for one of the trace: lengths that were estimated from text are right on average
// then, and prompts still share what their hashes say.
func (t *Trace) measure() float64 {
	const most = 16
	told, estimated := 0.0, 0.0
	for _, r := range t.records {
		if r.PromptTokens > 0 {
			told += float64(r.PromptTokens)
			estimated += float64(r.Input)
		}
	}
	if estimated == 0 {
		return 1
	}
	return min(max(told/estimated, 1.0/most), most)
}

// spread makes requests of the records, those of one timestamp evenly over the time to the next, at most a tick. A recording's
// timestamps are exact: there it is a millisecond.
func (t *Trace) spread(page int) []*Request {
	records := t.records
	all := make([]*Request, 0, len(records))
	for first := 0; first < len(records); {
		end := first
		for end < len(records) && records[end].Timestamp == records[first].Timestamp {
			end++
		}
		width := int64(tick)
		if records[first].Recording != 0 {
			width = 1
		}
		if end < len(records) {
			width = min(width, records[end].Timestamp-records[first].Timestamp)
		}
		for k := first; k < end; k++ {
			r := &records[k]
			at := float64(r.Timestamp) + float64(width)*float64(k-first)/float64(end-first)
			all = append(all, &Request{Prompt: promptOf(r, page), Output: max(1, r.Output), Key: r.Key, At: at})
		}
		first = end
	}
	return all
}

// promptOf is a segment for each block, of so many tokens. An id stands for its block and all in front of it.
func promptOf(r *stages.RequestRecord, page int) []Segment {
	segments := make([]Segment, len(r.Blocks))
	for i, id := range r.Blocks {
		segments[i] = Segment{id, page}
	}
	if rest := r.Input % blockTokens; rest > 0 {
		segments[len(segments)-1].Tokens = max(1, (rest*page+blockTokens/2)/blockTokens)
	}
	return segments
}
