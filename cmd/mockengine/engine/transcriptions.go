package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
)

// bytesPerAudioToken is how much of a file a token of its prompt is taken to be.
const bytesPerAudioToken = 1 << 10

var errNoForm = errors.New("there was an error parsing the body")

// transcriptions is POST /v1/audio/transcriptions, whose body is a form.
var transcriptions = &api{
	form:  true,
	needs: givenFile | givenModel, field: "file", replies: true,
	size: func(a *ask) size {
		return size{tokens: (len(a.file) + bytesPerAudioToken - 1) / bytesPerAudioToken, batch: 1}
	},
	body: func(b []byte, a *answer, e *Engine) []byte {
		b = append(b, `{"text":"`...)
		b = append(b, e.reply.first(a.tokens)...)
		return append(b, `","usage":{"type":"duration","seconds":1}}`...)
	},
	stream: transcriptionStream,
}

// parseForm reads a form. Of a field that is there twice the last counts.
func (a *ask) parseForm(contentType string, body []byte) error {
	*a = ask{limit: -1, n: 1}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "multipart/form-data" {
		return errNoForm
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errNoForm
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return errNoForm
		}
		a.formField(part.FormName(), part.FileName(), value)
	}
}

func (a *ask) formField(name, file string, value []byte) {
	switch {
	case name == "file" && file != "":
		a.file, a.given = value, a.given|givenFile
	case file != "":
	case name == "model":
		quoted, _ := json.Marshal(string(value)) // a string cannot fail
		a.model, a.given = inner(quoted), a.given|givenModel
	case name == "stream":
		a.stream = string(bytes.ToLower(value)) == "true" || string(value) == "1"
	}
}

// transcriptionStream sends the words as they come, as vLLM does.
func transcriptionStream(s *sse, a *answer, e *Engine) error {
	for k := range a.tokens {
		if err := s.token(k); err != nil {
			return err
		}
		b := a.appendIdentity(s.begin(), "transcription.chunk")
		b = append(b, `,"choices":[{"delta":{"content":"`...)
		b = append(b, e.reply.token(k)...)
		if err := s.end(append(b, `"},"finish_reason":null}]}`...)); err != nil {
			return err
		}
	}
	return endOpenAI(s, a, "transcription.chunk")
}
