package stages

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/smg-go/smg/pipeline"
)

// Rank tells the engine which of its data-parallel ranks the request is for: "data_parallel_rank" in the body, in the place of one that
// the client wrote, or as the first field. It is so for one attempt; another worker's attempt gets the client's body again. A worker
// that is a whole engine gets the body as it is.
//
// A body that has no room for it, because it is no JSON object, is refused: 400 request_preparation_failed.
func Rank() pipeline.Stage { return rank{} }

type rank struct{}

var (
	_ pipeline.Stage      = rank{}
	_ pipeline.Contracted = rank{}
)

func (rank) Name() string { return "rank" }

func (rank) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.Target, pipeline.Body, bodyFields}}
}

func (rank) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	w := x.Target()
	if w == nil || x.DryRun {
		return next(x)
	}
	number, ranked := w.Rank()
	if !ranked {
		return next(x)
	}
	written := x.Body.Bytes
	if x.Body.Streamed || !bytes.HasPrefix(bytes.TrimLeft(written, " \t\r\n"), []byte("{")) {
		return &pipeline.Error{
			Status: http.StatusBadRequest, Code: "request_preparation_failed", Terminal: true,
			Message: "The request body must be a JSON object, because the worker is one rank of several",
		}
	}
	memory := rankedBodies.Get().(*[]byte)
	defer func() {
		x.Body.Bytes = written
		if cap(*memory) <= largestRankedBody {
			rankedBodies.Put(memory)
		}
	}()
	*memory = appendRanked((*memory)[:0], written, bodyFields.Fill(x), number)
	x.Body.Bytes = *memory
	return next(x)
}

// largestRankedBody is how much memory is kept for the next body.
const largestRankedBody = 1 << 20

var rankedBodies = sync.Pool{New: func() any { return new([]byte) }}

// appendRanked appends a body with the rank in it; all else is byte for byte the same. Should the body name several ranks the last one,
// which counts, is replaced.
func appendRanked(to, body []byte, f *fieldSet, number int) []byte {
	if f.hasKey(fieldDataParallelRank) {
		old := f.spans[fieldDataParallelRank]
		to = append(to, body[:old.start]...)
		to = strconv.AppendInt(to, int64(number), 10)
		return append(to, body[old.end:]...)
	}
	open := bytes.IndexByte(body, '{') + 1
	to = append(append(to, body[:open]...), `"data_parallel_rank":`...)
	to = strconv.AppendInt(to, int64(number), 10)
	if body[skipSpace(body, open)] != '}' {
		to = append(to, ',')
	}
	return append(to, body[open:]...)
}
