package policy

import (
	"hash/maphash"

	"github.com/smg-go/smg/pipeline"
)

const (
	charsOfToken = 4
	// maxWorkPages is how many pages of a prompt least_work looks at; what lies behind counts as not held by anybody.
	maxWorkPages = 1 << 15
)

// workSeed keeps clients from making up prompts that collide with those of others.
var workSeed = maphash.MakeSeed()

// workPrompt is a prompt as least_work sees it: a chain of hashes, each of a page and all before it, and its length.
type workPrompt struct {
	pages  []uint64
	tokens int64
}

// read takes a prompt in, in pages of so many tokens; a text's are of four times as many characters. A prompt that nobody has read
// has no pages, and is as long as the body lets expect.
func (p *workPrompt) read(x *pipeline.Exchange, page int) {
	p.pages = p.pages[:0]
	switch {
	case len(x.Prompt.Tokens) > 0:
		p.tokens = int64(len(x.Prompt.Tokens))
		p.readTokens(x.Prompt.Tokens, page, x.Prompt.Partition)
		if x.Prompt.Hinted { // they are only its head
			p.tokens = max(p.tokens, bodyLength(x)/charsOfToken)
		}
	case x.Prompt.Text != "":
		chars := p.readText(x.Prompt.Text, page*charsOfToken, x.Prompt.Partition)
		p.tokens = int64(chars+charsOfToken-1) / charsOfToken
	default:
		p.tokens = bodyLength(x) / charsOfToken
	}
}

// bodyLength is the declared length of the body, 0 if there is none.
func bodyLength(x *pipeline.Exchange) int64 {
	if x.Client == nil {
		return int64(len(x.Body.Bytes))
	}
	return max(x.Client.ContentLength(), int64(len(x.Body.Bytes)))
}

func (p *workPrompt) readTokens(tokens []uint32, page int, partition uint64) {
	link := follow(1, partition) // texts begin with 2
	key := tokenKey(tokens)
	for size := page * tokenBytes; len(key) >= size && len(p.pages) < maxWorkPages; key = key[size:] {
		link = follow(link, maphash.String(workSeed, key[:size]))
		p.pages = append(p.pages, link)
	}
}

// readText cuts a text into pages of so many code points, and counts them all.
func (p *workPrompt) readText(text string, page int, partition uint64) (chars int) {
	link := follow(2, partition)
	for len(p.pages) < maxWorkPages {
		end := pageEnd(text, page)
		if end < 0 {
			break
		}
		link = follow(link, maphash.String(workSeed, text[:end]))
		p.pages = append(p.pages, link)
		text = text[end:]
	}
	return len(p.pages)*page + characters(text)
}

// pageEnd is how many bytes the first so many code points are; -1 if there are not so many.
func pageEnd(text string, chars int) int {
	end := chars // so many characters are at least so many bytes; in most text, as many
	for end <= len(text) {
		missing := chars - characters(text[:end])
		if missing > 0 {
			end += missing
			continue
		}
		for end < len(text) && continues(text[end]) {
			end++
		}
		return end
	}
	return -1
}

// follow is the link of a chain behind another one.
func follow(link, page uint64) uint64 {
	link = (link ^ page) * 0x9e3779b97f4a7c15
	return link ^ link>>29
}
