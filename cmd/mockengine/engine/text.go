package engine

import "strings"

// vocabulary is what replies are made of. No word needs escaping in JSON, so replies are copied into answers as they are.
var vocabulary = strings.Fields(`the quick engine reads a long prompt and then answers with many short words that mean nothing at all
 but cost just as much as those of a large model would on a busy day in spring`)

// reply is the text every answer begins with, cut into tokens once.
type reply struct {
	all  string
	ends []int // ends[k] is where token k ends
}

func newReply(tokens int) reply {
	var b strings.Builder
	ends := make([]int, tokens)
	for k := range ends {
		if k > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(vocabulary[k%len(vocabulary)])
		ends[k] = b.Len()
	}
	return reply{all: b.String(), ends: ends}
}

// first is the text of the first n tokens.
func (r reply) first(n int) string {
	if n <= 0 {
		return ""
	}
	return r.all[:r.ends[n-1]]
}

// token is the text of token k.
func (r reply) token(k int) string {
	return r.all[len(r.first(k)):r.ends[k]]
}
