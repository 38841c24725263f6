package engine

import (
	"bytes"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// audioForm is a form with these fields, names and values in turn; a field "file" is a file.
func audioForm(t *testing.T, fields ...string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		part, err := form.CreateFormField(fields[i])
		if fields[i] == "file" {
			part, err = form.CreateFormFile("file", "a.wav")
		}
		require.NoError(t, err)
		_, err = part.Write([]byte(fields[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, form.Close())
	return form.FormDataContentType(), b.Bytes()
}

// http-dataplane.md, section 2.5
func TestTranscriptionsTakeAForm(t *testing.T) {
	tests := []struct {
		name        string
		fields      []string
		contentType string // empty: that of the form
		status      int
		want        string
	}{
		{"a file and a model", []string{"model", "m1", "file", "RIFF"}, "", 200, `{"text":"`},
		{"streamed", []string{"file", "RIFF", "model", "m1", "stream", "true"}, "", 200, `"object":"transcription.chunk"`},
		{"unknown fields are ignored", []string{"x", "y", "file", "RIFF", "model", "m1"}, "", 200, `{"text":"`},
		{"no file", []string{"model", "m1"}, "", 400, "Field required"},
		{"no model", []string{"file", "RIFF"}, "", 400, "Field required"},
		{"another type", []string{"file", "RIFF", "model", "m1"}, "application/json", 400, "parsing the body"},
		{"another boundary", []string{"file", "RIFF", "model", "m1"}, "multipart/form-data; boundary=x", 400, "Field required"},
		{"another model", []string{"file", "RIFF", "model", `m"2`}, "", 404, `m\"2`},
	}
	e := Start(t, Config{Engine: VLLM, Models: []string{"m1"}})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			contentType, body := audioForm(t, tt.fields...)
			if tt.contentType != "" {
				contentType = tt.contentType
			}
			resp, err := client.Post(e.URL+"/v1/audio/transcriptions", contentType, bytes.NewReader(body))
			require.NoError(t, err)
			got := drain(t, resp)
			require.Equal(t, tt.status, resp.StatusCode, got)
			require.Contains(t, got, tt.want)
			streamed := strings.Contains(tt.want, "chunk")
			require.Equal(t, streamed, strings.HasSuffix(got, "data: [DONE]\n\n"))
			require.Equal(t, streamed, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"))
		})
	}
	resp, _ := get(t, e.URL+"/v1/audio/transcriptions")
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}
