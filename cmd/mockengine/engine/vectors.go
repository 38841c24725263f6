package engine

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// defaultDimensions and maxDimensions are the length of an embedding.
const (
	defaultDimensions = 8
	maxDimensions     = 4096
)

// embeddings is POST /v1/embeddings: equal inputs have equal vectors.
var embeddings = &api{
	needs: givenInput, field: "input",
	size:   func(a *ask) size { return measure(a.inputs) },
	prompt: func(t *tokenizer, a *ask) { t.prompt(a.inputs) },
	body:   embeddingsBody,
}

// classify is POST /v1/classify: two labels.
var classify = &api{
	needs: givenInput, field: "input",
	size:   func(a *ask) size { return measure(a.inputs) },
	prompt: func(t *tokenizer, a *ask) { t.prompt(a.inputs) },
	body:   classifyBody,
}

// rerank is POST /v1/rerank. Both engines answer with SGLang's form, a plain array; the order is that of the documents.
var rerank = &api{
	needs: givenQuery | givenDocuments, field: "documents",
	size: func(a *ask) size {
		query, docs := measure(a.query), measure(a.docs)
		return size{tokens: query.tokens*docs.batch + docs.tokens, batch: docs.batch}
	},
	prompt: func(t *tokenizer, a *ask) {
		eachElement(a.docs, func(document []byte) { // each is computed with the query in front of it
			t.prompt(a.query)
			t.prompt(document)
		})
	},
	body: rerankBody,
}

func embeddingsBody(b []byte, a *answer, _ *Engine) []byte {
	dimensions := a.dimensions
	if dimensions < 1 || dimensions > maxDimensions {
		dimensions = defaultDimensions
	}
	vector := make([]float32, dimensions)
	b = append(a.appendIdentity(b, "list"), `,"data":[`...)
	eachInput(a.inputs, func(i int, input []byte) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = appendInt(b, i)
		b = append(b, `,"embedding":`...)
		embed(vector, input)
		b = append(appendVector(b, vector, a.base64), '}')
	})
	b = append(b, ']')
	b = a.appendUsage(b)
	return append(b, '}')
}

// eachInput calls f for each input: texts of a list, token lists of a list, or the value itself.
func eachInput(inputs []byte, f func(i int, input []byte)) {
	i := skipSpace(inputs, 1)
	if len(inputs) == 0 || inputs[0] != '[' || i >= len(inputs) || (inputs[i] != '"' && inputs[i] != '[') {
		f(0, inputs)
		return
	}
	n := 0
	eachElement(inputs, func(v []byte) {
		if n < maxChoices {
			f(n, v)
		}
		n++
	})
}

// embed fills v with a vector of length 1 that depends on the input alone.
func embed(v []float32, input []byte) {
	h := xxhash.Sum64(input)
	norm := 0.0
	for i := range v {
		h = h*6364136223846793005 + 1442695040888963407 // Knuth's linear congruential generator
		v[i] = float32(int32(h>>32)) / (1 << 31)
		norm += float64(v[i]) * float64(v[i])
	}
	scale := float32(1 / math.Sqrt(max(norm, 1e-12)))
	for i := range v {
		v[i] *= scale
	}
}

func appendVector(b []byte, v []float32, base64Encoded bool) []byte {
	if base64Encoded {
		raw := make([]byte, 0, 4*len(v))
		for _, f := range v {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
		}
		b = append(b, '"')
		b = base64.StdEncoding.AppendEncode(b, raw)
		return append(b, '"')
	}
	b = append(b, '[')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(f), 'g', -1, 32)
	}
	return append(b, ']')
}

func classifyBody(b []byte, a *answer, _ *Engine) []byte {
	b = append(a.appendIdentity(b, "list"), `,"data":[`...)
	eachInput(a.inputs, func(i int, _ []byte) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = appendInt(b, i)
		b = append(b, `,"label":"LABEL_0","probs":[0.75,0.25],"num_classes":2}`...)
	})
	b = append(b, ']')
	b = a.appendUsage(b)
	return append(b, '}')
}

func rerankBody(b []byte, a *answer, _ *Engine) []byte {
	b = append(b, '[')
	i := 0
	eachElement(a.docs, func(document []byte) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"score":`...)
		b = strconv.AppendFloat(b, 1/float64(i+1), 'g', 6, 64)
		if !a.noDocuments {
			b = append(b, `,"document":`...)
			b = append(b, document...)
		}
		b = append(b, `,"index":`...)
		b = appendInt(b, i)
		b = append(b, `,"meta_info":{"id":"`...)
		b = append(b, a.id...)
		b = append(b, `"}}`...)
		i++
	})
	return append(b, ']')
}
