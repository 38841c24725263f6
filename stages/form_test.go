package stages

import (
	"bytes"
	"io"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

const audioPath = "/v1/audio/transcriptions"

// audio is a client with a form of these fields, names and values in turn; a field "file" is a file.
func audio(t *testing.T, fields ...string) (c *caller, body string) {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	require.NoError(t, form.SetBoundary("the boundary"))
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
	return post(audioPath, b.String(), "Content-Type", form.FormDataContentType()), b.String()
}

// formRig is a rig of the route that takes forms.
func formRig(t *testing.T, n int, configure func(*rigging)) *rig {
	r := newRig(t, n, func(s *rigging) {
		s.path, s.kind = audioPath, Transcriptions
		if configure != nil {
			configure(s)
		}
	})
	r.edited(t, func(c *pipeline.Chain) (*pipeline.Chain, error) {
		form := Form(r.settings.body, &Models{Registry: r.registry, Required: r.settings.required})
		return c.Replace("body", form)
	})
	return r
}

// http-dataplane.md, section 2.5: the form is written anew, the file in it as it is; it has a length, so that it can be sent again on a
// fresh connection (section 8).
func TestAFormGoesToTheWorkerWrittenAnew(t *testing.T) {
	for name, size := range map[string]int{"a short one": 100, "one that is longer than what is read ahead": readAhead, "a long one": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			r := formRig(t, 1, func(s *rigging) { s.body.MaxBytes = 8 << 20 })
			c, _ := audio(t, "user", "u", "model", " m1", "file", strings.Repeat("x", size), "language", "en")
			require.Equal(t, 200, r.ask(c).status, c.got.String())
			require.Contains(t, c.got.String(), `{"text":"`)
			got := r.posts(0)[0]
			fields, err := entries(got.Body, got.Values("Content-Type")[0])
			require.NoError(t, err)
			require.True(t, strings.Repeat("x", size) == fields[0].value)
			fields[0].value = ""
			require.Equal(t, []formEntry{
				{"file", "a.wav", "application/octet-stream", ""},
				{name: "model", value: "m1"},
				{name: "language", value: "en"},
			}, fields)
			require.Empty(t, got.Values("Transfer-Encoding"))
			require.Equal(t, 1, r.count(t, "router_requests_total{regular http audio_transcriptions m1 http false}"))
			r.requireQuiet(t)
		})
	}
}

// http-dataplane.md, section 2.5: a body that is no form is 400, and no worker hears of it.
func TestWhatIsNoFormIsRefused(t *testing.T) {
	for name, kind := range map[string]string{
		"no type": "", "JSON": "application/json", "another form": "application/x-www-form-urlencoded", "no boundary": "multipart/form-data",
		"an empty boundary": `multipart/form-data; boundary=""`, "a boundary that is too long": "multipart/form-data; boundary=" + strings.Repeat("b", 71),
		"another multipart": "multipart/mixed; boundary=b", "malformed": "multipart/form-data; boundary",
	} {
		t.Run(name, func(t *testing.T) {
			r := formRig(t, 1, nil)
			c, _ := audio(t, "model", "m1", "file", "RIFF")
			c.header.Set("Content-Type", kind)
			r.ask(c)
			require.Equal(t, []any{400, "invalid_multipart"}, []any{c.status, c.code()})
			require.Empty(t, r.posts(0))
		})
	}
}

// DECISIONS.md 40; http-dataplane.md, sections 5.1 and 5.2. The model counts wherever it stands.
func TestTheModelOfAFormDecidesWhoServesIt(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	several := func(r *rig) { _ = r.registry.Add(named(t, "http://127.0.0.1:9", "m2", workers.Regular)) }
	alias := func(r *rig) { r.registry.Alias("alias", "m1") }
	longer := func(r *rig) { r.registry.Alias("a", "m1") }
	tests := []struct {
		name   string
		fields []string
		state  func(*rig)
		code   string // empty: the worker has been asked
	}{
		{"a model that is served", []string{"model", "m1", "file", "RIFF"}, nil, ""},
		{"a model that nobody serves", []string{"model", "m2", "file", "RIFF"}, nil, "model_not_found"},
		{"nobody serves it, behind a long file", []string{"file", long, "model", "m2"}, nil, "model_not_found"},
		{"several models", []string{"file", long, "model", "m1"}, several, ""},
		{"several models, and none of them", []string{"file", long, "model", "m3"}, several, "model_not_found"},
		{"an alias", []string{"model", "alias", "file", "RIFF"}, alias, ""},
		{"an alias behind a long file", []string{"file", long, "model", "alias", "language", "en"}, alias, ""},
		{"an alias that is shorter than the model", []string{"file", long, "model", "a", "language", "en"}, longer, ""},
		{"no model", []string{"file", "RIFF"}, nil, "missing_required_parameter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := formRig(t, 1, nil)
			if tt.state != nil {
				tt.state(r)
			}
			c, _ := audio(t, tt.fields...)
			r.ask(c)
			require.Equal(t, tt.code, c.code())
			if tt.code != "" {
				require.Empty(t, r.posts(0))
				return
			}
			require.Len(t, r.posts(0), 1)
			got := r.posts(0)[0]
			fields, err := entries(got.Body, got.Values("Content-Type")[0])
			require.NoError(t, err)
			require.Equal(t, formEntry{name: "model", value: "m1"}, fields[1])
			require.Equal(t, strings.Contains(strings.Join(tt.fields, " "), "language"), len(fields) == 3)
		})
	}
}

// http-dataplane.md, section 3.1: a form may not be longer than bodies may be, be its length told or not.
func TestAFormHasALimit(t *testing.T) {
	r := formRig(t, 1, nil)
	c, _ := audio(t, "file", strings.Repeat("x", 1<<20), "model", "m1")
	c.length = -1
	r.ask(c)
	require.Equal(t, []any{413, "request_body_too_large"}, []any{c.status, c.code()})
	require.Empty(t, r.posts(0))
}

// http-dataplane.md, section 2.5: one attempt.
func TestAFormIsSentOnce(t *testing.T) {
	r := formRig(t, 2, nil)
	for _, e := range r.engines {
		e.SetFaults(engine.Fault{Status: 503, Body: "busy"})
	}
	c, _ := audio(t, "model", "m1", "file", "RIFF")
	r.ask(c)
	require.Equal(t, []any{503, "busy"}, []any{c.status, c.got.String()})
	require.Len(t, append(r.posts(0), r.posts(1)...), 1)
	require.Equal(t, 1, r.count(t, "worker_retries_exhausted_total{audio_transcriptions regular}"))
}

// http-dataplane.md, section 2.5: the worker's content type is relayed; an event stream as it comes.
func TestATranscriptionMayBeStreamed(t *testing.T) {
	r := formRig(t, 1, nil)
	c, _ := audio(t, "model", "m1", "file", "RIFF", "stream", "true")
	require.Equal(t, 200, r.ask(c).status)
	require.Contains(t, c.head.Get("Content-Type"), "text/event-stream")
	require.True(t, strings.HasSuffix(c.got.String(), "data: [DONE]\n\n"))
	require.Equal(t, 1, r.count(t, "router_requests_total{regular http audio_transcriptions m1 http true}"))
}

// http-dataplane.md, section 4: the client's fault, its absence, and its slowness. None of it is a worker's.
func TestAFormTellsWhyItCouldNotBeRead(t *testing.T) {
	r := formRig(t, 1, nil)
	c, body := audio(t, "file", strings.Repeat("x", 100<<10), "model", "m1")
	c.body, c.length = io.MultiReader(strings.NewReader(body[:50<<10]), iotest.ErrReader(io.ErrUnexpectedEOF)), int64(len(body))
	r.ask(c)
	require.Equal(t, []any{400, "request_body_aborted"}, []any{c.status, c.code()})
	require.Empty(t, r.posts(0))
	require.Zero(t, r.workers[0].Breaker().ConsecutiveFailures())
}
