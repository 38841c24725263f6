package stages

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// crlf puts the line ends of a form in the place of the readable ones.
func crlf(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

const (
	modelPart = "--b\nContent-Disposition: form-data; name=\"model\"\n\n"
	filePart  = "--b\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\nContent-Type: audio/wav\n\nRIFF\n"
)

// other is a field of a form, with its value.
func other(name, value string) string {
	return "--b\nContent-Disposition: form-data; name=\"" + name + "\"\n\n" + value + "\n"
}

// rewritten is what becomes of a whole form whose boundary is b, or the error.
func rewritten(form string) (fields []formEntry, model string, err error) {
	t := newTranscription(nil, 0)
	if err := t.read(strings.NewReader(form), "b"); err != nil {
		return nil, "", err
	}
	if err := t.check(); err != nil {
		return nil, "", err
	}
	at := t.finish()
	fields, err = entries(t.out.Bytes(), t.form.FormDataContentType())
	return fields, string(at.of(t.out.Bytes())), err
}

// formEntry is a part of a form.
type formEntry struct{ name, file, kind, value string }

// entries are the parts of a form, as the standard library reads it.
func entries(form []byte, contentType string) (list []formEntry, err error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	parts := multipart.NewReader(bytes.NewReader(form), params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return nil, err
		}
		list = append(list, formEntry{part.FormName(), part.FileName(), part.Header.Get("Content-Type"), string(value)})
	}
}

// http-dataplane.md section 2.5: the file is first, under its name and type; the model without space around it; fields that are not
// documented are drained and left out.
func TestAFormIsWrittenAnew(t *testing.T) {
	file, model := formEntry{"file", "a.wav", "audio/wav", "RIFF"}, formEntry{name: "model", value: "m1"}
	tests := []struct {
		name, form string
		want       []formEntry
	}{
		{"the model first", modelPart + "m1\n" + filePart + "--b--\n", []formEntry{file, model}},
		{"the file first", filePart + modelPart + "m1\n--b--", []formEntry{file, model}},
		{"behind a preamble", "what old mail readers show\n" + modelPart + "m1\n" + filePart + "--b--", []formEntry{file, model}},
		{"the last of two models", modelPart + "m0\n" + filePart + modelPart + "m1\n--b--", []formEntry{file, model}},
		{"the last of two files", "--b\nContent-Disposition: form-data; name=\"file\"; filename=\"b\"\n\nlonger than that\n" + filePart + modelPart + "m1\n--b--", []formEntry{file, model}},
		{"space around the model", modelPart + " m1\t\n" + filePart + "--b--", []formEntry{file, model}},
		{"other headers", "--b\nX: y\ncontent-disposition:form-data ; name=model\n\nm1\n" + filePart + "--b--", []formEntry{file, model}},
		{"fields that are not documented", other("user", "u") + filePart + "--b\nContent-Disposition: form-data; name=\"extra\"; filename=\"x\"\n\nx\n" + modelPart + "m1\n--b--", []formEntry{file, model}},
		{"another disposition", strings.Replace(modelPart, "form-data", "attachment", 1) + "m0\n" + filePart + modelPart + "m1\n--b--", []formEntry{file, model}},
		{"a file without a name", strings.Replace(filePart, "a.wav", "", 1) + modelPart + "m1\n--b--", []formEntry{{"file", "", "audio/wav", "RIFF"}, model}},
		{"a file without a type", strings.Replace(filePart, "Content-Type: audio/wav\n", "", 1) + modelPart + "m1\n--b--", []formEntry{{"file", "a.wav", "", "RIFF"}, model}},
		{
			"all that is documented", other("stream", "1") + other("temperature", "0.5") + other("response_format", "json") + other("prompt", "p") + other("language", "en") +
				other("timestamp_granularities[]", "word") + other("timestamp_granularities", "segment") + filePart + modelPart + "m1\n--b--",
			[]formEntry{
				file, model,
				{name: "language", value: "en"},
				{name: "prompt", value: "p"},
				{name: "response_format", value: "json"},
				{name: "temperature", value: "0.5"},
				{name: "stream", value: "1"},
				{name: "timestamp_granularities[]", value: "word"},
				{name: "timestamp_granularities[]", value: "segment"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, model, err := rewritten(crlf(tt.form))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			require.Equal(t, "m1", model, "where it is, is known")
		})
	}
}

// http-dataplane.md section 2.5: any violation is 400.
func TestAFormThatBreaksARuleIsRefused(t *testing.T) {
	const broken, missing, invalid = "invalid_multipart", "missing_required_parameter", "invalid_value"
	whole := func(more string) string { return filePart + modelPart + "m1\n" + more + "--b--" }
	tests := []struct{ name, form, code, param string }{
		{"no file", modelPart + "m1\n--b--", missing, "file"},
		{"a file that is a field", modelPart + "m1\n" + other("file", "RIFF") + "--b--", missing, "file"},
		{"an empty file", strings.Replace(filePart, "RIFF", "", 1) + modelPart + "m1\n--b--", invalid, "file"},
		{"no model", filePart + "--b--", missing, "model"},
		{"a blank model", filePart + modelPart + " \t\n--b--", invalid, "model"},
		{"a model that is a file", filePart + "--b\nContent-Disposition: form-data; name=\"model\"; filename=\"m\"\n\nm1\n--b--", missing, "model"},
		{"too warm", whole(other("temperature", "1.1")), invalid, "temperature"},
		{"too cold", whole(other("temperature", "-0.1")), invalid, "temperature"},
		{"no number", whole(other("temperature", "warm")), invalid, "temperature"},
		{"not finite", whole(other("temperature", "NaN")), invalid, "temperature"},
		{"endless", whole(other("temperature", "Inf")), invalid, "temperature"},
		{"an empty temperature", whole(other("temperature", "")), invalid, "temperature"},
		{"neither true nor false", whole(other("stream", "maybe")), invalid, "stream"},
		{"a word that other parsers take", whole(other("stream", "t")), invalid, "stream"},
		{"nothing", "", broken, ""},
		{"no end", filePart + modelPart + "m1\n", broken, ""},
		{"a head that is cut", filePart + "--b\nContent-Disposition: form-data; name=\"model\"\n", missing, "model"}, // its reader takes it for the end
		{"another boundary", strings.ReplaceAll(whole(""), "--b", "--c"), broken, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rewritten(crlf(tt.form))
			var refused *pipeline.Error
			require.True(t, errors.As(err, &refused), "%v", err)
			require.Equal(t, []any{400, tt.code, tt.param}, []any{refused.Status, refused.Code, refused.Param})
		})
	}
	for _, good := range []string{"0", "1", "0.3", "1e-1", "+.5"} {
		_, _, err := rewritten(crlf(whole(other("temperature", good))))
		require.NoError(t, err, good)
	}
	for _, good := range []string{"true", "True", "TRUE", "1", "false", "False", "FALSE", "0"} {
		_, _, err := rewritten(crlf(whole(other("stream", good))))
		require.NoError(t, err, good)
	}
}

// Whatever the bytes are: they are refused, or what is sent is a form of the documented fields with a file and a model.
func FuzzTranscription(f *testing.F) {
	for _, seed := range []string{modelPart + "m1\n" + filePart + "--b--\n", filePart + modelPart + "m1\n--b--", "--b\n\n--b--", "--b--", "x\n--b\n\n\n--b \n"} {
		f.Add([]byte(crlf(seed)))
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		got, model, err := rewritten(string(form))
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, len(got), 2)
		require.Equal(t, "file", got[0].name)
		require.NotEmpty(t, got[0].value)
		require.Equal(t, formEntry{name: "model", value: model}, got[1])
		require.NotEmpty(t, strings.TrimSpace(model))
		for _, field := range got[2:] {
			require.True(t, field.name == "timestamp_granularities[]" || formFieldOf(field.name) > 0, field.name)
		}
	})
}
