package forward

import (
	"bytes"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// tail remembers the end of a stream: its last bytes tell whether an event has just ended, and the usage that most engines
// send last is found in it. The stream itself is not parsed.
type tail struct {
	kept  []byte
	heard time.Time // since when the worker is waited for, or when the client was last pinged
	tick  time.Time // when the read gives up next, to look at the clock
}

// The tail holds between enough and twice enough bytes, so that most additions are one copy.
const enough = 1 << 10

func (t *tail) add(piece []byte) {
	if len(piece) >= 2*enough {
		t.kept = append(t.kept[:0], piece[len(piece)-enough:]...)
		return
	}
	if len(t.kept)+len(piece) > 2*enough {
		t.kept = append(t.kept[:0], t.kept[max(0, len(t.kept)-enough):]...)
	}
	t.kept = append(t.kept, piece...)
}

func (t *tail) bytes() []byte { return t.kept }

// atBoundary tells whether the stream stands between two events, or at its beginning. A line ends with LF, CR LF or CR; one CR
// behind a line's end may be half of a CR LF, so it ends no event yet.
func (t *tail) atBoundary() bool {
	return len(t.kept) == 0 || bytes.HasSuffix(t.kept, []byte("\n\n")) ||
		bytes.HasSuffix(t.kept, []byte("\n\r\n")) || bytes.HasSuffix(t.kept, []byte("\r\r"))
}

func (t *tail) reset() { *t = tail{kept: t.kept[:0]} }

// usageIn finds the token counts in the last bytes of an answer: in the usage object of OpenAI and Anthropic style, or in the
// meta_info of SGLang.
func usageIn(body []byte) pipeline.Usage {
	if len(body) > 2*enough {
		body = body[len(body)-2*enough:]
	}
	at := bytes.LastIndex(body, []byte(`"usage"`))
	if at < 0 {
		if at = bytes.LastIndex(body, []byte(`"meta_info"`)); at < 0 {
			return pipeline.Usage{}
		}
	}
	body = body[at:]
	u := pipeline.Usage{InputTokens: number(body, `"prompt_tokens"`), OutputTokens: number(body, `"completion_tokens"`)}
	if u == (pipeline.Usage{}) {
		u = pipeline.Usage{InputTokens: number(body, `"input_tokens"`), OutputTokens: number(body, `"output_tokens"`)}
	}
	return u
}

// number is the value behind a key, 0 if there is none or it is not a small whole number.
func number(body []byte, key string) int64 {
	at := bytes.Index(body, []byte(key))
	if at < 0 {
		return 0
	}
	rest := bytes.TrimLeft(body[at+len(key):], " \t\r\n:")
	n := int64(0)
	for i, c := range rest {
		switch {
		case c >= '0' && c <= '9' && i < 15:
			n = 10*n + int64(c-'0')
		case c >= '0' && c <= '9', c == '.', c == 'e', c == 'E':
			return 0
		default:
			return n
		}
	}
	return 0 // the end is missing
}
