package stages

import (
	"net/http"
	"strings"

	"github.com/smg-go/smg/pipeline"
)

// checkContentType refuses a body that does not say that it is JSON: application/json or application/*+json, with any parameters.
// The error is 400 json_parse_error.
func checkContentType(header string) *pipeline.Error {
	if header == "application/json" || isJSONType(header) {
		return nil
	}
	return badRequest("json_parse_error", "", "Missing Content-Type: application/json header")
}

func isJSONType(header string) bool {
	media, _, _ := strings.Cut(header, ";")
	kind, subtype, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	if kind != "application" {
		return false
	}
	prefix, structured := strings.CutSuffix(subtype, "+json")
	return subtype == "json" || structured && prefix != ""
}

// checkContentEncoding refuses a body that would have to be decompressed to be parsed: 415 unsupported_content_encoding.
func checkContentEncoding(header string) *pipeline.Error {
	if header == "" || strings.EqualFold(strings.TrimSpace(header), "identity") {
		return nil
	}
	return &pipeline.Error{
		Status: http.StatusUnsupportedMediaType, Code: "unsupported_content_encoding", Terminal: true,
		Message: "The request body must be sent without a Content-Encoding.",
	}
}
