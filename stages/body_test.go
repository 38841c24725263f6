package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

func bodyStages(kind Kind) []pipeline.Stage {
	return []pipeline.Stage{Body(BodySettings{MaxBytes: 1 << 20, Stall: time.Minute}, kind)}
}

// http-dataplane.md, section 3.2; DECISIONS 8, 25 and 27: what is wrong is a 400 that names the field, and no worker hears of it.
func TestBodyRefusesWhatIsNoRequest(t *testing.T) {
	tests := []struct {
		name, body, contentType, encoding string
		status                            int
		code, param                       string
	}{
		{"cut off", `{`, "application/json", "", 400, "invalid_json", "null"},
		{"nothing", ``, "application/json", "", 400, "invalid_json", "null"},
		{"a list", `[]`, "application/json", "", 400, "invalid_type", "null"},
		{"a text", `"hi"`, "application/json", "", 400, "invalid_type", "null"},
		{"no model", `{"messages":[{"role":"user","content":"hi"}]}`, "application/json", "", 400, "missing_required_parameter", `"model"`},
		{"no messages", `{"model":"m1"}`, "application/json", "", 400, "missing_required_parameter", `"messages"`},
		{"empty messages", `{"model":"m1","messages":[]}`, "application/json", "", 400, "empty_array", `"messages"`},
		{"no content type", small, "", "", 400, "json_parse_error", "null"},
		{"another content type", small, "text/plain", "", 400, "json_parse_error", "null"},
		{"a form", small, "application/x-www-form-urlencoded", "", 400, "json_parse_error", "null"},
		{"compressed", small, "application/json", "gzip", 415, "unsupported_content_encoding", "null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, nil)
			c := post(chatPath, tt.body, "Content-Type", tt.contentType, "Content-Encoding", tt.encoding)
			r.ask(c)
			require.Equal(t, tt.status, c.status)
			require.Equal(t, tt.code, c.code())
			require.Contains(t, c.got.String(), `"type":"invalid_request_error","param":`+tt.param+`,"code":"`+tt.code+`"`)
			require.Empty(t, r.posts(0))
		})
	}
}

// http-dataplane.md, section 3.2: the types that are accepted.
func TestBodyAcceptsEveryJSONType(t *testing.T) {
	for _, kind := range []string{"application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.api+json", "application/json;odd"} {
		c := chat("Content-Type", kind)
		_, err := c.through(t, append(bodyStages(Chat), last(200, nil))...)
		require.NoError(t, err, kind)
	}
	c := chat("Content-Encoding", "identity")
	_, err := c.through(t, append(bodyStages(Chat), last(200, nil))...)
	require.NoError(t, err)
}

// http-dataplane.md, section 3.4: unknown fields, key order, digits and white space reach the worker.
func TestBodyReachesTheWorkerAsTheClientWroteIt(t *testing.T) {
	const odd = "{ \"x_custom\" : 12345678901234567890,\"temperature\":0.95,\r\n\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}],\"model\":\"m1\",\"model\":\"m1\" }\n"
	r := newRig(t, 1, nil)
	r.ask(post(chatPath, odd))
	got := r.posts(0)[0]
	require.Equal(t, odd, string(got.Body))
	require.Equal(t, []string{fmt.Sprint(len(odd))}, got.Values("Content-Length"))
	require.Empty(t, got.Values("Transfer-Encoding"))
}

// A body may come in any pieces, its end with the last of them or behind it, with or without a declared length.
func TestBodyIsReadHoweverItComes(t *testing.T) {
	for _, size := range []int{100, 4095, 4096, 4097, 50_000} {
		for name, pieces := range map[string]func(io.Reader) io.Reader{
			"at once":                   func(r io.Reader) io.Reader { return r },
			"byte by byte":              iotest.OneByteReader,
			"by halves":                 iotest.HalfReader,
			"with the end at its heels": iotest.DataErrReader,
		} {
			for _, declared := range []bool{true, false} {
				c := sized(size)
				want, _ := io.ReadAll(c.body)
				c.body = pieces(bytes.NewReader(want))
				if !declared {
					c.length = -1
				}
				_, err := c.through(t, append(bodyStages(Chat), last(200, func(x *pipeline.Exchange) {
					require.True(t, bytes.Equal(want, x.Body.Bytes), "%d bytes, %s", size, name)
				}))...)
				require.NoError(t, err)
			}
		}
	}
}

// http-dataplane.md, sections 4 and 9.3: the client's fault, its absence, and its slowness. None of it is a worker's.
func TestBodyTellsWhyItCouldNotBeRead(t *testing.T) {
	tests := []struct {
		name    string
		failure error
		gone    bool
		status  int
		code    string
	}{
		{"it broke off", io.ErrUnexpectedEOF, false, 400, "request_body_aborted"},
		{"it stalled", fmt.Errorf("read: %w", os.ErrDeadlineExceeded), false, 408, "request_body_stalled"},
		{"its encoding is malformed", errors.New("malformed chunked encoding"), false, 400, "request_body_aborted"},
		{"its client has left", context.Canceled, true, 0, ""},
	}
	for _, tt := range tests {
		for _, with := range []func(*rigging){nil, unretried} {
			t.Run(tt.name+map[bool]string{true: ", buffered", false: ", streamed"}[with == nil], func(t *testing.T) {
				r := newRig(t, 1, with)
				c := chat()
				c.body = io.MultiReader(strings.NewReader(""), iotest.ErrReader(tt.failure))
				if tt.gone {
					c.leave()
				}
				r.ask(c)
				require.Equal(t, tt.status, c.status)
				require.Equal(t, tt.code, c.code())
				require.Equal(t, tt.gone, c.aborted)
				require.Empty(t, r.posts(0))
				require.Zero(t, r.total(t, "worker_retries_total"), "not even the 408")
				require.Zero(t, r.total(t, "worker_cb_outcomes_total"))
			})
		}
	}
}

// A body of just the size that is allowed is read, whatever the client has declared.
func TestTheLargestBodyIsRead(t *testing.T) {
	for _, declared := range []int64{1 << 20, -1} {
		c := sized(1 << 20)
		c.length = declared
		x, err := c.through(t, append(bodyStages(Chat), last(200, nil))...)
		require.NoError(t, err)
		require.Len(t, x.Body.Bytes, 1<<20)
	}
}

// DECISIONS 38: the stall limit holds while the body is read, and only then; a streamed body is read to the end of the request.
func TestBodySetsTheStallLimitWhileItReads(t *testing.T) {
	read := func(streamed bool, stall time.Duration) []time.Duration {
		c := chat()
		x := &pipeline.Exchange{Client: c}
		x.Body.Streamed = streamed
		require.NoError(t, assembled(t, Body(BodySettings{MaxBytes: 1 << 20, Stall: stall}, Chat), last(200, nil)).Run(x))
		return c.timeouts
	}
	require.Equal(t, []time.Duration{time.Minute, 0}, read(false, time.Minute))
	require.Equal(t, []time.Duration{time.Minute}, read(true, time.Minute))
	require.Empty(t, read(false, 0))
	require.Empty(t, read(true, 0))
}

// http-dataplane.md, section 9.3: stream:true, as the body says; null means false.
func TestBodyTellsWhetherAStreamIsAskedFor(t *testing.T) {
	for members, want := range map[string]bool{
		`"stream":true`: true, `"stream":false`: false, `"stream":null`: false, `"n":1`: false, `"stream":true,"stream":false`: false,
	} {
		c := post(chatPath, `{"model":"m1","messages":[{"role":"user","content":"hi"}],`+members+`}`)
		x, err := c.through(t, append(bodyStages(Chat), last(200, nil))...)
		require.NoError(t, err)
		require.Equal(t, want, x.Body.Stream, members)
	}
}

// Memory for bodies serves one request after another: none sees the bytes of another, also if they come at once.
func TestBodiesOfManyRequestsDoNotMix(t *testing.T) {
	chain := assembled(t, append(bodyStages(Generate), last(200, func(x *pipeline.Exchange) {
		id := x.Client.Header("X-Id")
		if !strings.Contains(string(x.Body.Bytes), `"text":"`+id) {
			t.Errorf("request %s has the body %.40s", id, x.Body.Bytes)
		}
	}))...)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for k := range 100 {
				id := fmt.Sprintf("%d-%d", i, k)
				_ = chain.Serve(post("/generate", `{"text":"`+id+strings.Repeat(" x", 100*(k%40))+`"}`, "X-Id", id))
			}
		})
	}
	clients.Wait()
}
