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

// http-dataplane.md, sections 2.1 and 2.5: no byte of a form is changed, and its type is the client's. A short one has a length, so that
// it can be sent again on a fresh connection (section 8).
func TestAFormGoesToTheWorkerAsItIs(t *testing.T) {
	tests := []struct {
		name    string
		file    int // bytes
		chunked bool
		model   string // as it is counted: only of a short one the model is seen
	}{
		{"a short one", 100, false, "m1"},
		{"one that is longer than what is read ahead", readAhead, true, "unknown"},
		{"a long one", 3 << 20, true, "unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := formRig(t, 1, func(s *rigging) { s.body.MaxBytes = 8 << 20 })
			c, body := audio(t, "file", strings.Repeat("x", tt.file), "model", "m1")
			kind := c.header.Get("Content-Type")
			require.Equal(t, 200, r.ask(c).status, c.got.String())
			require.Contains(t, c.got.String(), `{"text":"`)
			got := r.posts(0)[0]
			require.True(t, body == string(got.Body))
			require.Equal(t, []string{kind}, got.Values("Content-Type"))
			require.Equal(t, tt.chunked, len(got.Values("Transfer-Encoding")) == 1)
			require.Equal(t, 1, r.count(t, "router_requests_total{regular http audio_transcriptions "+tt.model+" http false}"))
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

// DECISIONS.md 40; http-dataplane.md, sections 5.1 and 5.2. Where models have to be told apart the form is read until its model has
// come, wherever it stands.
func TestTheModelOfAFormDecidesWhoServesIt(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	several := func(r *rig) { _ = r.registry.Add(named(t, "http://127.0.0.1:9", "m2", workers.Regular)) }
	alias := func(r *rig) { r.registry.Alias("alias", "m1") }
	tests := []struct {
		name   string
		fields []string
		state  func(*rig)
		code   string // empty: the worker has been asked
		sent   string // the model that it got
	}{
		{"a model that is served", []string{"model", "m1", "file", "RIFF"}, nil, "", "m1"},
		{"with space around it", []string{"model", " m1\t", "file", "RIFF"}, nil, "", " m1\t"},
		{"a model that nobody serves", []string{"model", "m2", "file", "RIFF"}, nil, "model_not_found", ""},
		{"nobody serves it, in front of a long file", []string{"model", "m2", "file", long}, nil, "model_not_found", ""},
		{"it has not come when the only model is asked", []string{"file", long, "model", "m2"}, nil, "", "m2"},
		{"no model", []string{"file", "RIFF"}, nil, "", ""},
		{"several models", []string{"file", long, "model", "m1"}, several, "", "m1"},
		{"several models, and none of them", []string{"file", long, "model", "m3"}, several, "model_not_found", ""},
		{"an alias", []string{"model", "alias", "file", "RIFF"}, alias, "", "m1"},
		{"an alias behind a long file", []string{"file", long, "model", "alias", "language", "en"}, alias, "", "m1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := formRig(t, 1, nil)
			if tt.state != nil {
				tt.state(r)
			}
			c, body := audio(t, tt.fields...)
			r.ask(c)
			require.Equal(t, tt.code, c.code())
			if tt.code != "" {
				require.Empty(t, r.posts(0))
				return
			}
			require.Len(t, r.posts(0), 1)
			want := strings.Replace(body, "\r\n\r\nalias\r\n", "\r\n\r\n"+tt.sent+"\r\n", 1)
			require.True(t, want == string(r.posts(0)[0].Body))
		})
	}
}

// http-dataplane.md, section 4 and cli.md, IGW
func TestAFormMustNameItsModelWhereSeveralAreServedAlways(t *testing.T) {
	r := formRig(t, 1, func(s *rigging) { s.required = true })
	c, _ := audio(t, "file", "RIFF")
	r.ask(c)
	require.Equal(t, []any{400, "missing_model"}, []any{c.status, c.code()})
}

// http-dataplane.md, section 3.1: a form that is searched for its model may not be longer than bodies may be.
func TestAFormThatIsSearchedHasALimit(t *testing.T) {
	r := formRig(t, 1, nil)
	r.registry.Alias("alias", "m1")
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
	r.registry.Alias("alias", "m1")
	c.body, c.length = io.MultiReader(strings.NewReader(body[:50<<10]), iotest.ErrReader(io.ErrUnexpectedEOF)), int64(len(body))
	r.ask(c)
	require.Equal(t, []any{400, "request_body_aborted"}, []any{c.status, c.code()})
	require.Empty(t, r.posts(0))
	require.Zero(t, r.workers[0].Breaker().ConsecutiveFailures())
}
