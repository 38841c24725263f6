package stages

import (
	"net/http"
	"strconv"
	"time"

	"github.com/smg-go/smg/pipeline"
)

// rerankPath is where the worker serves both rerank routes. It gets the client's own body.
const rerankPath = "/v1/rerank"

// rerankRequest is what the answer to a rerank request depends on.
type rerankRequest struct {
	TopK            int    // at most so many results; 0: all
	ReturnDocuments bool   // results keep their document
	RID             string // the client's rid as JSON; null without one
	Model           string // the canonical id
}

// rerankRequestOf reads a body that [Kind.validate] has passed. The body need not live any longer.
func rerankRequestOf(body []byte, f *fieldSet, model string) rerankRequest {
	r := rerankRequest{ReturnDocuments: true, RID: "null", Model: model}
	r.TopK, _ = fieldInt(body, f, fieldTopK)
	if f.has(fieldReturnDocuments) {
		r.ReturnDocuments = fieldBool(body, f, fieldReturnDocuments)
	}
	if f.has(fieldRID) {
		r.RID = string(f.raw(body, fieldRID))
	}
	return r
}

// answer makes the gateway's answer of the worker's, a JSON array of results, whose order and bytes it keeps:
// {"results":[...],"model":...,"usage":null,"object":"rerank","id":...,"created":...}. An object with results is relayed as it
// is; anything else is 500 rerank_response_build_failed.
func (r rerankRequest) answer(worker []byte, now time.Time) ([]byte, *pipeline.Error) {
	start := skipSpace(worker, 0)
	end := skipFast(worker, start)
	if end < 0 || skipSpace(worker, end) != len(worker) {
		return nil, errRerankAnswer()
	}
	if worker[start] != '[' {
		return wholeRerankAnswer(worker, start)
	}
	answer := append(make([]byte, 0, len(worker)+len(r.Model)+len(r.RID)+128), `{"results":[`...)
	count, ok := 0, true
	eachElement(worker, start, func(i int) int {
		end := skipFast(worker, i)
		result := worker[i:end]
		ok = ok && isRerankResult(result)
		if ok && (r.TopK == 0 || count < r.TopK) {
			answer = r.appendResult(answer, result, count)
		}
		count++
		return end
	})
	if !ok {
		return nil, errRerankAnswer()
	}
	answer = append(answer, `],"model":`...)
	answer = appendQuoted(answer, r.Model)
	answer = append(answer, `,"usage":null,"object":"rerank","id":`...)
	answer = append(answer, r.RID...)
	answer = append(answer, `,"created":`...)
	answer = strconv.AppendInt(answer, now.Unix(), 10)
	return append(answer, '}'), nil
}

// wholeRerankAnswer is for engines that answer with the finished object instead of the list: it goes to the client as it is.
func wholeRerankAnswer(worker []byte, start int) ([]byte, *pipeline.Error) {
	if worker[start] != '{' || len(memberOf(worker[start:], "results")) == 0 {
		return nil, errRerankAnswer()
	}
	return worker, nil
}

func isRerankResult(result []byte) bool {
	return result[0] == '{' && isNumber(memberOf(result, "score")) && isNumber(memberOf(result, "index"))
}

func (r rerankRequest) appendResult(answer, result []byte, count int) []byte {
	if count > 0 {
		answer = append(answer, ',')
	}
	if r.ReturnDocuments {
		return append(answer, result...)
	}
	return appendWithout(answer, result, "document")
}

// appendWithout appends an object without its members of one name. The others keep their order and their bytes.
func appendWithout(dst, object []byte, name string) []byte {
	dst = append(dst, '{')
	first := true
	eachMember(object, 0, func(key []byte, i int) int {
		end := skipFast(object, i)
		if string(key) == name {
			return end
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		dst = append(dst, key...)
		dst = append(dst, `":`...)
		dst = append(dst, object[i:end]...)
		return end
	})
	return append(dst, '}')
}

func errRerankAnswer() *pipeline.Error {
	return &pipeline.Error{
		Status: http.StatusInternalServerError, Code: "rerank_response_build_failed", Terminal: true,
		Message: "The worker's answer is not a list of rerank results.",
	}
}
