package stages

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strconv"
	"strings"
)

// transcription is a form that is written while another one is read. The file goes straight into it, and is the first of its parts; the
// other fields are kept until all have come. Of several of one name the last counts, as in the engines' own parsers.
type transcription struct {
	out           bytes.Buffer
	form          *multipart.Writer
	fields        [len(formFields)]*string // nil: has not come
	granularities []string
	named         bool // a file has come
	size          int  // of it, in bytes
}

// formFile is the field with the file.
var formFile = "file"

// formFields are the fields beside the file that a worker gets, in the order in which it gets them.
var formFields = [...]string{formModelField: "model", "language", "prompt", "response_format", formTemperature: "temperature", formStream: "stream"}

const (
	formModelField  = 0
	formTemperature = 4
	formStream      = 5
)

// formSlack is room for what is written behind a file, in bytes, so that the file is seldom moved.
const formSlack = 4 << 10

func newTranscription(memory []byte, size int64) *transcription {
	t := &transcription{out: *bytes.NewBuffer(memory[:0])}
	t.out.Grow(int(max(size, 0)) + formSlack)
	t.form = multipart.NewWriter(&t.out)
	return t
}

// read reads a form to its end, and what stands behind it.
func (t *transcription) read(from io.Reader, boundary string) error {
	parts := multipart.NewReader(from, boundary)
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF { // a wrapped one is a form without an end
			_, err = io.Copy(io.Discard, from) // then the server notices a client that leaves
			return err
		}
		if err == nil {
			err = t.take(part)
		}
		if err != nil {
			return errors.Join(badForm(), err)
		}
	}
}

// take keeps a part if it is one of those that are documented; the reader passes over others by itself.
func (t *transcription) take(part *multipart.Part) error {
	disposition, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" {
		return nil
	}
	name := params["name"]
	if file, is := params["filename"]; is {
		if name != formFile {
			return nil
		}
		return t.takeFile(part, file)
	}
	granularity := name == "timestamp_granularities" || name == "timestamp_granularities[]"
	id := formFieldOf(name)
	if !granularity && id < 0 {
		return nil
	}
	content, err := io.ReadAll(part)
	value := string(content)
	if granularity {
		t.granularities = append(t.granularities, value)
	} else {
		t.fields[id] = &value
	}
	return err
}

func formFieldOf(name string) int {
	for id, known := range formFields {
		if name == known {
			return id
		}
	}
	return -1
}

// takeFile writes a file, in the place of one that came before.
func (t *transcription) takeFile(part *multipart.Part, name string) error {
	t.out.Reset()
	t.form = multipart.NewWriter(&t.out)
	head := textproto.MIMEHeader{"Content-Disposition": {multipart.FileContentDisposition(formFile, name)}}
	if kind := part.Header.Get("Content-Type"); kind != "" {
		head.Set("Content-Type", kind)
	}
	_, _ = t.form.CreatePart(head) // a buffer takes everything
	size, err := t.out.ReadFrom(part)
	t.named, t.size = true, int(size)
	return err
}

// check checks the documented rules, and returns the first violation.
func (t *transcription) check() error {
	model := t.fields[formModelField]
	switch {
	case !t.named:
		return badRequest("missing_required_parameter", formFile, fmt.Sprintf("Missing required parameter: '%s'.", formFile))
	case t.size == 0:
		return badRequest("invalid_value", formFile, fmt.Sprintf("'%s' must not be empty.", formFile))
	case model == nil:
		return missing(fieldModel)
	case strings.TrimSpace(*model) == "":
		return invalidValue(fieldModel, "not be blank")
	}
	if v := t.fields[formTemperature]; v != nil && !isFraction(*v) {
		return invalidValue(fieldTemperature, "be a number from 0 to 1")
	}
	if v := t.fields[formStream]; v != nil && !isSwitch(*v) {
		return invalidValue(fieldStream, "be true or false")
	}
	return nil
}

// isFraction tells whether a text is a decimal number from 0 to 1.
func isFraction(text string) bool {
	n, err := strconv.ParseFloat(text, 64)
	return err == nil && n >= 0 && n <= 1 && !strings.ContainsAny(text, "xX_")
}

func isSwitch(text string) bool {
	switch text {
	case "true", "True", "TRUE", "1", "false", "False", "FALSE", "0":
		return true
	}
	return false
}

// finish writes the fields behind the file, and tells where the model is.
func (t *transcription) finish() (model span) {
	for id, value := range t.fields {
		if value == nil {
			continue
		}
		text := *value
		if id == formModelField {
			text = strings.TrimSpace(text)
		}
		_ = t.form.WriteField(formFields[id], text)
		if id == formModelField {
			model = newSpan(t.out.Len()-len(text), t.out.Len())
		}
	}
	for _, value := range t.granularities {
		_ = t.form.WriteField("timestamp_granularities[]", value)
	}
	_ = t.form.Close()
	return model
}

func badForm() error {
	return badRequest("invalid_multipart", "", "The request body is no complete multipart form.")
}
