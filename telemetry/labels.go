package telemetry

import (
	"slices"
	"strconv"
	"strings"
)

// Values of labels that stand for what has no series of its own.
const (
	LabelOther   = "other"   // path that no route matches; model or endpoint out of the list
	LabelUnknown = "unknown" // the request named no model
)

const (
	maxModels     = 1024 // distinct models that get series of their own
	maxErrorCodes = 256  // a bound against a program whose stages make codes up; smg's own are about 60
)

// labelSet admits the first distinct values of a label and calls every later one "other". What it admitted it keeps.
type labelSet struct {
	limit int
	known cowMap[string, string] // value as it came -> label
}

// label bounds a value that is not empty. It allocates nothing once the value is known or the set is full.
func (s *labelSet) label(value string) string {
	if l, ok := s.known.get(value); ok {
		return l
	}
	if value == LabelOther || value == LabelUnknown || s.known.len() >= s.limit {
		return reserved(value)
	}
	return s.known.getOrMake(value, func(v string) (string, bool) {
		if s.known.len() >= s.limit { // filled meanwhile
			return LabelOther, false
		}
		return cleanLabel(strings.Clone(v)), true // cloned: the value may be a slice of a request's body
	})
}

// reserved keeps the two reserved values as they are; anything else that has no place is "other".
func reserved(value string) string {
	if value == LabelUnknown {
		return LabelUnknown
	}
	return LabelOther
}

// cleanLabel makes a value valid UTF-8; the Prometheus library panics at any other.
func cleanLabel(value string) string { return strings.ToValidUTF8(value, "\uFFFD") }

// ModelLabel is the label value for the model of a request: "unknown" if it named none, "other" if no worker serves it, so
// that clients cannot make series. Of the models that are served the first 1024 keep their names, later ones are "other".
func (m *Metrics) ModelLabel(model string, known bool) string {
	if model != "" && !known {
		return LabelOther
	}
	return modelLabelOf(&m.models, model)
}

// methods are the values of the label "method"; the last one stands for all others.
var methods = [...]string{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "OTHER"}

const methodOther = len(methods) - 1

func methodIndex(method string) int {
	switch method {
	case "POST":
		return 1
	case "GET":
		return 0
	}
	if i := slices.Index(methods[:methodOther], method); i >= 0 {
		return i
	}
	return methodOther
}

// MethodLabel is the label value for a request's method: one of the seven usual ones, else "OTHER".
func MethodLabel(method string) string { return methods[methodIndex(method)] }

// Endpoints: the values of the label "endpoint".
const (
	EndpointChat                  = "chat"
	EndpointGenerate              = "generate"
	EndpointCompletions           = "completions"
	EndpointResponses             = "responses"
	EndpointMessages              = "messages"
	EndpointEmbeddings            = "embeddings"
	EndpointClassify              = "classify"
	EndpointRerank                = "rerank"
	EndpointTranscriptions        = "audio_transcriptions"
	EndpointRealtime              = "realtime"
	EndpointRealtimeSessions      = "realtime_sessions"
	EndpointRealtimeSecrets       = "realtime_client_secrets"
	EndpointRealtimeTranscription = "realtime_transcription"
	EndpointOther                 = LabelOther
)

// endpoints are all values of the label; the last one stands for all others.
var endpoints = [...]string{
	EndpointChat, EndpointGenerate, EndpointCompletions, EndpointResponses, EndpointMessages, EndpointEmbeddings,
	EndpointClassify, EndpointRerank, EndpointTranscriptions, EndpointRealtime, EndpointRealtimeSessions,
	EndpointRealtimeSecrets, EndpointRealtimeTranscription, EndpointOther,
}

func endpointIndex(endpoint string) int {
	if i := slices.Index(endpoints[:], endpoint); i >= 0 {
		return i
	}
	return len(endpoints) - 1
}

// EndpointOf is the label value for a route's path template, "other" for routes without one of their own.
func EndpointOf(path string) string {
	switch path {
	case "/v1/chat/completions":
		return EndpointChat
	case "/generate":
		return EndpointGenerate
	case "/v1/completions":
		return EndpointCompletions
	case "/v1/responses":
		return EndpointResponses
	case "/v1/messages":
		return EndpointMessages
	case "/v1/embeddings":
		return EndpointEmbeddings
	case "/v1/classify":
		return EndpointClassify
	case "/rerank", "/v1/rerank":
		return EndpointRerank
	case "/v1/audio/transcriptions":
		return EndpointTranscriptions
	case "/v1/realtime":
		return EndpointRealtime
	case "/v1/realtime/sessions":
		return EndpointRealtimeSessions
	case "/v1/realtime/client_secrets":
		return EndpointRealtimeSecrets
	case "/v1/realtime/transcription_sessions":
		return EndpointRealtimeTranscription
	}
	return EndpointOther
}

// statusLabel is the decimal status; a number that no HTTP response can carry is "other".
func statusLabel(status int) string {
	if status < 100 || status > 999 {
		return LabelOther
	}
	return strconv.Itoa(status)
}

// modelLabelOf is the label for a model that is served, or for what already is a label.
func modelLabelOf(models *labelSet, model string) string {
	if model == "" {
		return LabelUnknown
	}
	return models.label(model)
}
