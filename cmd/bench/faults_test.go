package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// The short form, smaller still: nothing may be lost, duplicated or left over, whatever happens.
func TestNothingIsLostWhateverHappens(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds smg, and takes seconds")
	}
	path := filepath.Join(t.TempDir(), "faults.json")
	c := faultsCmd{
		Only:     []string{"none", "restarted", "hung stream", "cut", "churn", "vanish", "crowd", "stop"},
		Duration: 500 * time.Millisecond, Clients: 4, Together: 4, JSON: path,
	}
	require.NoError(t, c.check())
	r, err := c.measure(t.Context(), io.Discard)
	require.NoError(t, err)
	require.NoError(t, r.err())
	var table, text bytes.Buffer
	require.NoError(t, r.print(&table))
	require.NoError(t, encode(&text, r))
	var report struct{ Faults []map[string]any }
	require.NoError(t, json.Unmarshal(text.Bytes(), &report))
	require.Len(t, report.Faults, len(c.Only))
	for _, f := range report.Faults {
		require.Contains(t, table.String(), f["fault"])
		for _, key := range []string{"lost", "duplicated", "left_over"} {
			require.Zero(t, f[key], "%s", f["fault"])
		}
		require.Positive(t, f["sent"], f["fault"])
		require.Positive(t, f["completed"], f["fault"])
		require.Equal(t, f["sent"], f["completed"].(float64)+f["refused"].(float64)+f["vanished"].(float64), f["fault"])
	}
}

// What would be wrong is found: attempts of one request that overlap, or that follow the first byte of an answer.
func TestTheWitnessFindsAttemptsTooMany(t *testing.T) {
	busy, hung, slow := engine.Fault{Status: 503}, engine.Fault{HangHeadMillis: -1}, engine.Fault{HangAfterEvents: new(1)}
	tests := []struct {
		name   string
		fault  engine.Fault
		after  func(t *testing.T, first, client *clientConn, smg net.Conn) // between the two attempts
		double string
	}{
		{"an attempt after a refusal is none", busy, readAnswer, ""},
		{"nor after a whole answer", engine.Fault{}, readAnswer, ""},
		{"nor after one that was given up", hung, func(_ *testing.T, first, _ *clientConn, _ net.Conn) { first.close() }, ""},
		{"one while another is open is", hung, func(*testing.T, *clientConn, *clientConn, net.Conn) {}, "while it is open"},
		{"and one while another answers", slow, func(t *testing.T, first, _ *clientConn, _ net.Conn) {
			_, err := first.in.Peek(1)
			require.NoError(t, err)
		}, "while it is open"},
		{"and one after the client has got a byte", busy, func(t *testing.T, first, client *clientConn, smg net.Conn) {
			readAnswer(t, first, client, smg)
			client.answered.Store(true)
		}, "although the client has got a part"},
		{"even if it has not read it yet", hung, func(t *testing.T, first, _ *clientConn, smg net.Conn) {
			first.close()
			_, err := io.WriteString(smg, "H")
			require.NoError(t, err)
		}, "although the client has got a part"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &scene{witness: newWitness()}
			e, err := s.newEngine("w")
			require.NoError(t, err)
			t.Cleanup(e.down)
			client, smg := linked(t)
			defer s.witness.sends("r", client)()
			e.SetFaults(tt.fault)
			first := attemptAt(t, e)
			require.Eventually(t, func() bool { return e.State().Total == 1 }, 10*time.Second, time.Millisecond)
			tt.after(t, first, client, smg)
			attemptAt(t, e)
			require.Eventually(t, func() bool { return e.State().Total == 2 }, 10*time.Second, time.Millisecond)
			n, example := s.witness.duplicated()
			if tt.double == "" {
				require.Zero(t, n, example)
				return
			}
			require.Equal(t, 1, n)
			require.Contains(t, example, "attempt 1 is followed by another one "+tt.double)
		})
	}
}

// linked is a client's connection to somebody in the place of smg.
func linked(t *testing.T) (c *clientConn, smg net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	smg, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = smg.Close() })
	return &clientConn{Conn: nc, in: bufio.NewReader(nc)}, smg
}

func readAnswer(t *testing.T, c, _ *clientConn, _ net.Conn) {
	resp, err := http.ReadResponse(c.in, nil)
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
}

// attemptAt sends a request with the id r to an engine.
func attemptAt(t *testing.T, e *rogue) *clientConn {
	nc, err := net.Dial("tcp", e.addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	_, err = io.WriteString(nc, request("engine", "r", `{"model":"m1","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
	require.NoError(t, err)
	return &clientConn{Conn: nc, in: bufio.NewReader(nc)}
}

// What a client is told decides what became of its request; anything that is not documented is lost.
func TestAnswersAreJudged(t *testing.T) {
	const done, part = "data: {}\n\ndata: [DONE]\n\n", "data: {}\n\n"
	cut := errors.New("cut")
	tests := []struct {
		name     string
		status   int
		code     string
		text     string
		cut      error
		streamed bool
		want     string
	}{
		{"a whole answer", 200, "", `{"id":"1"}`, nil, false, "completed"},
		{"a whole stream", 200, "", done, nil, true, "completed"},
		{"a stream that ends without its last event", 200, "", part, nil, true, "lost"},
		{"a stream that breaks visibly", 200, "", part, cut, true, "broken"},
		{"an answer that is cut", 200, "", `{"id"`, cut, false, "lost"},
		{"an answer that lacks its end", 200, "", `{"id"`, nil, false, "lost"},
		{"the gateway's error", 503, "no_available_workers", `{"error":{}}`, nil, false, "refused"},
		{"an error that no fault explains", 500, "internal_error", `{"error":{}}`, nil, false, "lost"},
		{"the worker's error", 429, "", `{"error":{}}`, nil, true, "refused"},
		{"an error without a body", 503, "no_available_workers", "", nil, false, "lost"},
		{"an error that is cut", 503, "", `{"error":{}}`, cut, false, "lost"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tt.status, Header: http.Header{}}
			if resp.Header.Set("X-SMG-Error-Code", tt.code); tt.code == "" {
				resp.Header.Set("X-SMG-Routed-Worker-Id", "http://w")
			}
			o := judge(resp, []byte(tt.text), tt.cut, tt.streamed)
			got := map[bool]string{o.completed: "completed", o.refused: "refused", o.broken: "broken", o.lost != "": "lost"}[true]
			require.Equal(t, tt.want, got)
		})
	}
	noted := crowd{fault: fault{name: "slowed"}}
	noted.note(outcome{refused: true, says: "status 503"})
	require.Equal(t, 1, noted.tally().Lost, "a refusal that the fault is no reason for")
	noted.fault.errors = true
	noted.note(outcome{refused: true})
	require.Equal(t, 1, noted.tally().Refused)
}

// A report with anything lost, duplicated or left over is a failure that says what.
func TestAReportSaysWhatIsWrong(t *testing.T) {
	before := &standing{goroutines: 10, files: 8}
	after := &standing{counters: map[string]int{"smg_admission_inflight": 1}, goroutines: 12, files: 7}
	row := &faultRow{Fault: "cut", Lost: 1, Example: "status 200", Duplicated: 2, Double: "request r"}
	row.leave(before, after)
	require.Equal(t, 3, row.LeftOver)
	r := &faultReport{Faults: []*faultRow{{Fault: "none"}, row}}
	err := r.err().Error()
	for _, says := range []string{"1 lost, such as: status 200", "2 duplicated", "smg_admission_inflight is 1", "2 goroutines more than 10"} {
		require.Contains(t, err, says)
	}
	require.NoError(t, (&faultReport{Faults: []*faultRow{{Fault: "none"}}}).err())
}

func TestFaultsThatCannotBeRunAreRefused(t *testing.T) {
	for says, args := range map[string]string{
		"no fault": "--only none,flood", "--clients": "--clients 0", "--duration": "--duration 1ms", "--together": "--together 0",
	} {
		k, err := kong.Must(&cli{}, kong.Name("bench")).Parse(append([]string{"faults"}, strings.Fields(args)...))
		require.NoError(t, err)
		require.ErrorContains(t, run(k), says)
	}
	names := map[string]bool{}
	for _, f := range faults {
		require.False(t, names[f.name])
		require.NotEmpty(t, f.says)
		names[f.name] = true
	}
}

// docs/reliability.md says of every fault what happens, and what may be refused.
func TestThePageOfReliabilityHasEveryFault(t *testing.T) {
	page, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	for _, f := range faults {
		may := "nothing"
		switch {
		case f.breaks:
			may = "streams that have begun, broken"
		case f.errors:
			may = "requests"
		case f.ends:
			may = "what comes when smg has stopped listening"
		}
		require.Contains(t, string(page), fmt.Sprintf("| %s | %s | %s |\n", f.name, f.says, may))
	}
}

// FuzzMessage: whatever an engine or a client sends, in whatever pieces, the end of a message is found where it is.
func FuzzMessage(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nX-Request-Id: r\r\nContent-Length: 3\r\n\r\nabcGET", 7)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1)
	f.Add("\r\n\r\n", 2)
	f.Add("Content-Length: -1\r\n\r\nx", 3)
	f.Fuzz(func(t *testing.T, text string, step int) {
		step = max(1, step%64)
		var one, many message
		_, whole := one.take([]byte(text))
		got := false
		for rest := text; rest != "" && !got; {
			n := min(step, len(rest))
			_, got = many.take([]byte(rest[:n]))
			rest = rest[n:]
		}
		if whole && !got {
			t.Errorf("%q in pieces of %d has no end", text, step)
		}
		if fmt.Sprint(one.field("x-request-id")) != many.field("x-request-id") {
			t.Errorf("%q: two ids", text)
		}
	})
}
