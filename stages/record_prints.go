package stages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/smg-go/smg/pipeline"
)

// The kinds of what is hashed, so that equal bytes of different kinds differ.
const (
	printOfKey byte = iota + 1
	printOfText
	printOfTokens
	printOfNothing
)

// imprint is a hash that nobody can check a guess against who does not have the recording's salt. What is given away of it is a part, so
// it can be the beginning of the next one.
type imprint [sha256.Size]byte

// id is the part of an imprint that is written: 53 bits, which every reader of JSON keeps.
func (p *imprint) id() uint64 { return binary.LittleEndian.Uint64(p[:8]) >> 11 }

// begin is the imprint that a chain starts with: equal bytes behind it are told apart by the kind and what comes with it.
func (r *Recorder) begin(kind byte, number uint64, name string) imprint {
	seed := append(make([]byte, 0, 128), r.salt[:]...)
	seed = append(seed, kind)
	seed = binary.LittleEndian.AppendUint64(seed, number)
	return sha256.Sum256(append(seed, name...))
}

// keyPrint stands for a routing key.
func (r *Recorder) keyPrint(key string) string {
	p := r.begin(printOfKey, 0, key)
	return hex.EncodeToString(p[:8])
}

// promptPrints are the hashes of a prompt's blocks, and its length in tokens. told is the length that the worker says, 0 if it says
// nothing: it counts where the gateway has not seen the prompt, or only its head. What was not seen is like nothing else.
func (r *Recorder) promptPrints(x *pipeline.Exchange, told int64) (ids []uint64, tokens int) {
	p := &x.Prompt
	switch {
	case len(p.Tokens) > 0:
		ids, tokens = r.tokenPrints(p.Tokens, x)
		if !p.Hinted {
			return ids, tokens
		}
		tokens = max(tokens, int(min(told, mostTokens)))
	case p.Text != "":
		return r.textPrints(p.Text, x)
	case told > 0:
		tokens = int(min(told, mostTokens))
	case x.Body.Streamed:
		tokens = int(min(x.Client.ContentLength()/charsOfToken, mostTokens))
	}
	tokens = max(1, tokens)
	for len(ids) < blocksOf(tokens) {
		unique := r.begin(printOfNothing, r.unseen.Add(1), "")
		ids = append(ids, unique.id())
	}
	return ids, tokens
}

func blocksOf(tokens int) int { return (tokens + RecordBlock - 1) / RecordBlock }

func (r *Recorder) tokenPrints(all []uint32, x *pipeline.Exchange) (ids []uint64, tokens int) {
	all = all[:min(len(all), mostTokens)]
	ids = make([]uint64, 0, blocksOf(len(all)))
	link := r.begin(printOfTokens, x.Prompt.Partition, x.Model)
	var memory [sha256.Size + 4*RecordBlock]byte
	for rest := all; len(rest) > 0; {
		n := min(len(rest), RecordBlock)
		block := append(memory[:0], link[:]...)
		for _, t := range rest[:n] {
			block = binary.LittleEndian.AppendUint32(block, t)
		}
		link = sha256.Sum256(block)
		ids, rest = append(ids, link.id()), rest[n:]
	}
	return ids, len(all)
}

// textPrints cuts a text into blocks of so many characters as are taken for their tokens, as policies do.
func (r *Recorder) textPrints(text string, x *pipeline.Exchange) (ids []uint64, tokens int) {
	ids = make([]uint64, 0, blocksOf(len(text)/charsOfToken+1))
	link := r.begin(printOfText, x.Prompt.Partition, x.Model)
	var memory [sha256.Size + charsOfToken*RecordBlock]byte // enough for most text, and it may grow
	chars := 0
	for text != "" && chars < charsOfToken*mostTokens {
		end, n := leading(text, charsOfToken*RecordBlock)
		block := append(memory[:0], link[:]...)
		link = sha256.Sum256(append(block, text[:end]...))
		ids, chars, text = append(ids, link.id()), chars+n, text[end:]
	}
	return ids, (chars + charsOfToken - 1) / charsOfToken
}

// leading is how many bytes the first characters of a text are, at most so many, and how many they are.
func leading(text string, most int) (end, chars int) {
	for i := range text {
		if chars == most {
			return i, chars
		}
		chars++
	}
	return len(text), chars
}
