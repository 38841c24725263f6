package server

import (
	"bytes"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

const audioPath = "/v1/audio/transcriptions"

// recording is a form with a model and a file of so many bytes.
func recording(t testing.TB, model string, size int, more ...string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	for i := 0; i < len(more); i += 2 {
		require.NoError(t, form.WriteField(more[i], more[i+1]))
	}
	require.NoError(t, form.WriteField("model", model))
	file, err := form.CreateFormFile("file", "a.wav")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte{0, 255}, size/2))
	require.NoError(t, err)
	require.NoError(t, form.Close())
	return form.FormDataContentType(), b.String()
}

// readRecording reads the form that a worker got.
func readRecording(t testing.TB, got engine.Request) *multipart.Form {
	t.Helper()
	_, params, err := mime.ParseMediaType(got.Values("Content-Type")[0])
	require.NoError(t, err)
	form, err := multipart.NewReader(bytes.NewReader(got.Body), params["boundary"]).ReadForm(8 << 20)
	require.NoError(t, err)
	return form
}

// http-dataplane.md sections 2.1, 2.5, 9.1 and 16; DECISIONS.md row 40
func TestATranscriptionIsSentAndItsAnswerRelayed(t *testing.T) {
	w := engine.Start(t, engine.Config{Name: "W1"})
	g := start(t, nil, w)
	for name, size := range map[string]int{"short": 100, "long": 2 << 20} {
		for _, stream := range []string{"false", "true"} {
			t.Run(name+", stream "+stream, func(t *testing.T) {
				w.ClearRequests()
				kind, body := recording(t, "m1", size, "stream", stream)
				got := g.sent(t, http.MethodPost, audioPath, body, "Content-Type", kind, "X-Request-Id", "one")
				require.Equal(t, http.StatusOK, got.StatusCode, got.Body)
				require.NoError(t, got.Err)
				require.Equal(t, stream == "true", strings.HasPrefix(got.Header.Get("Content-Type"), "text/event-stream"))
				require.Equal(t, stream == "true", strings.HasSuffix(got.Body, "data: [DONE]\n\n"))
				require.Len(t, posts(w), 1)
				require.Equal(t, audioPath, posts(w)[0].Path)
				sent := readRecording(t, posts(w)[0])
				require.Equal(t, []string{"m1"}, sent.Value["model"])
				require.Equal(t, []string{stream}, sent.Value["stream"])
				require.Equal(t, "a.wav", sent.File["file"][0].Filename)
				require.EqualValues(t, size, sent.File["file"][0].Size)
			})
		}
	}
	g.quiet(t)
}

// http-dataplane.md sections 2.5, 3.1, 5.2 and 15; DECISIONS.md rows 25 and 40
func TestATranscriptionThatIsRefusedReachesNoWorker(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	g := start(t, func(c *Config) { c.MaxPayloadSize = 10_000 }, w)
	tests := []struct {
		name, model string
		size        int
		contentType string // empty: the form's
		status      int
		code        string
	}{
		{"another model", "m2", 10, "", 404, "model_not_found"},
		{"too long", "m1", 20_000, "", 413, "request_body_too_large"},
		{"no form", "m1", 10, "application/json", 400, "invalid_multipart"},
		{"no boundary", "m1", 10, "multipart/form-data", 400, "invalid_multipart"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kind, body := recording(t, tt.model, tt.size)
			if tt.contentType != "" {
				kind = tt.contentType
			}
			got := g.sent(t, http.MethodPost, audioPath, body, "Content-Type", kind)
			requireJSONError(t, got, tt.status, tt.code)
			require.Empty(t, posts(w))
		})
	}
}

// http-dataplane.md section 2.5: the breaker hears how the relay ended.
func TestATranscriptionThatBreaksIsAFailureOfItsWorker(t *testing.T) {
	w := engine.Start(t, engine.Config{})
	w.SetFaults(engine.Fault{CutAfterEvents: new(2)})
	g := start(t, nil, w)
	kind, body := recording(t, "m1", 100, "stream", "true")
	got := g.sent(t, http.MethodPost, audioPath, body, "Content-Type", kind)
	require.Error(t, got.Err)
	require.Equal(t, int64(1), g.failures())
	require.Len(t, posts(w), 1)
	g.quiet(t)
}
