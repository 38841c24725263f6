package stages

import (
	"encoding/json"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/smg-go/smg/pipeline"
)

// longestExplanation is how many bytes the header has at most: clients and proxies take 8 KiB of all headers and more.
const longestExplanation = 4 << 10

// ExplainHeader answers requests that carry "x-smg-explain: 1" with a header of that name: the Explanation of the last attempt as JSON in
// ASCII. One that is longer than 4 KiB names fewer workers, the best ones, and says that it is shortened.
//
// It stands behind the retry stage and before the stages that find candidates. Other requests pay for a look at a header; a chain
// without it pays nothing.
func ExplainHeader() pipeline.Stage { return explainHeader{} }

type explainHeader struct{}

var (
	_ pipeline.Stage   = explainHeader{}
	_ pipeline.Watcher = explainHeader{}
)

func (explainHeader) Name() string { return "explain_header" }

func (s explainHeader) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	if x.DryRun || x.Client.Header("X-Smg-Explain") != "1" { // a dry run has a better reader
		return next(x)
	}
	x.Explain = &pipeline.Explanation{} // of this attempt; that of the one before is no longer true
	x.Watch(s)
	err := next(x)
	if err != nil && x.Status() == 0 {
		s.tell(x, err) // nobody has answered yet: the error's response will say it
	}
	return err
}

// Head comes before anything of the answer is relayed.
func (s explainHeader) Head(x *pipeline.Exchange, _ *pipeline.Leg, _ int) { s.tell(x, nil) }

func (explainHeader) FirstByte(*pipeline.Exchange, *pipeline.Leg) {}

func (explainHeader) tell(x *pipeline.Exchange, err error) {
	whole := NewExplanation(x.Client.Method()+" "+x.Client.Path(), x, err)
	for n := max(len(whole.Candidates), len(whole.LeftOut), len(whole.Scores)); ; n /= 2 {
		short := whole.shortened(n)
		text, err := json.Marshal(short)
		if err != nil {
			return // it has nothing that JSON cannot say
		}
		if value := inASCII(text); len(value) <= longestExplanation || n == 0 {
			x.Client.SetHeader("X-Smg-Explain", value)
			return
		}
	}
}

// inASCII is the same JSON with what is not ASCII escaped.
func inASCII(text []byte) string {
	b := make([]byte, 0, len(text))
	for _, r := range string(text) {
		switch {
		case r < utf8.RuneSelf:
			b = append(b, byte(r))
		case r < 0x10000:
			b = fmt.Appendf(b, "\\u%04x", r)
		default:
			high, low := utf16.EncodeRune(r)
			b = fmt.Appendf(b, "\\u%04x\\u%04x", high, low)
		}
	}
	return string(b)
}
