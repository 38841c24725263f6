package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func do(t *testing.T, method, url string) string {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode)
	return drain(t, resp)
}

func TestRequestsAreLoggedByteForByte(t *testing.T) {
	e := Start(t, Config{})
	nc, r := dial(t, e)
	send(t, nc, "POST /v1/chat/completions?a=b HTTP/1.1\r\nHOST:x\r\nx-Dup: 1\r\nX-dup:  2 \r\nContent-Length: 4\r\n\r\n\xff{}\n")
	readAnswer(t, r)
	send(t, nc, "GET /nope HTTP/1.1\r\n\r\n")
	readAnswer(t, r)

	var log struct{ Requests []Request }
	require.NoError(t, json.Unmarshal([]byte(do(t, "GET", e.URL+"/mock/requests")), &log))
	require.Len(t, log.Requests, 2, "requests to /mock are not among them")
	first := log.Requests[0]
	require.Equal(t, "POST", first.Method)
	require.Equal(t, "/v1/chat/completions", first.Path)
	require.Equal(t, []string{
		"POST /v1/chat/completions?a=b HTTP/1.1", "HOST:x", "x-Dup: 1", "X-dup:  2 ", "Content-Length: 4",
	}, first.Head)
	require.Equal(t, "\xff{}\n", string(first.Body))
	require.Equal(t, []string{"1", "2"}, first.Values("X-DUP"))
	require.Equal(t, first.Conn, log.Requests[1].Conn)
	require.Nil(t, first.ClosedAt)
	require.WithinDuration(t, time.Now(), first.At, time.Hour)

	require.NoError(t, nc.Close())
	eventually(t, "the close is logged", func() bool { return e.Requests()[0].ClosedAt != nil })
	require.Equal(t, e.Requests()[0].ClosedAt, e.Requests()[1].ClosedAt)

	do(t, "DELETE", e.URL+"/mock/requests")
	require.Empty(t, e.Requests())
}

func TestAnUploadIsInTheLogBeforeItsEnd(t *testing.T) {
	e := Start(t, Config{})
	nc, _ := dial(t, e)
	send(t, nc, "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\nabc")
	eventually(t, "its head is logged", func() bool { return len(e.Requests()) == 1 })
	require.NoError(t, nc.Close())
	eventually(t, "what came of it is logged", func() bool { return string(e.Requests()[0].Body) == "abc" })
}

func TestTheLogKeepsTheLast(t *testing.T) {
	for _, keep := range []int{1, 3, 100} {
		l := requestLog{keep: keep, maxBytes: maxLogBytes}
		for i := range 500 {
			raw := fmt.Sprintf("GET /%d HTTP/1.1", i)
			var h head
			require.NoError(t, h.parse([]byte(raw)))
			l.addWhole(&h, []byte("body"), &fate{number: 1}, time.Now())
		}
		list := l.list()
		require.Len(t, list, keep)
		for i, r := range list {
			require.Equal(t, fmt.Sprintf("/%d", 500-keep+i), r.Path)
			require.Equal(t, "body", string(r.Body))
		}
		l.clear()
		require.Zero(t, l.bytes)
	}
}

func TestTheLogIsBoundedInBytes(t *testing.T) {
	l := requestLog{keep: 1000, maxBytes: 8000}
	h := head{}
	require.NoError(t, h.parse([]byte("POST / HTTP/1.1")))
	body := make([]byte, 1000)
	for range 12 {
		l.addWhole(&h, body, &fate{number: 1}, time.Now())
		require.LessOrEqual(t, l.bytes, 8000)
	}
	require.Equal(t, 7, l.count)
}

func TestARequestDroppedWhileItsBodyComesIsNotTouched(t *testing.T) {
	l := requestLog{keep: 1, maxBytes: maxLogBytes}
	var h head
	require.NoError(t, h.parse([]byte("GET /a HTTP/1.1")))
	slow := l.add(&h, &fate{number: 1}, time.Now())
	l.addWhole(&h, []byte("b"), &fate{number: 2}, time.Now())
	l.finish(slow, []byte("late"))
	require.Len(t, l.list(), 1)
	require.Equal(t, "b", string(l.list()[0].Body))
}

func TestNothingIsKeptWhenNotAsked(t *testing.T) {
	e := Start(t, Config{Keep: -1})
	post(t, e.URL+"/v1/chat/completions", hello)
	require.Empty(t, e.Requests())
	require.EqualValues(t, 1, e.State().Total)
}

func TestStateCounts(t *testing.T) {
	e := Start(t, Config{Name: "W1"})
	e.SetFaults(Fault{HangHeadMillis: -1, Count: 3})
	var open []func()
	for range 3 {
		nc, _ := dial(t, e)
		send(t, nc, rawPost("/v1/chat/completions", hello))
		open = append(open, func() { nc.Close() })
	}
	eventually(t, "three in flight", func() bool { return e.State().InFlight == 3 })
	for _, closes := range open {
		closes()
	}
	eventually(t, "none in flight", func() bool { return e.State().InFlight == 0 })
	post(t, e.URL+"/v1/chat/completions", hello)
	get(t, e.URL+"/nope")

	var s State
	require.NoError(t, json.Unmarshal([]byte(do(t, "GET", e.URL+"/mock/state")), &s))
	require.Equal(t, "W1", s.Name)
	require.EqualValues(t, 0, s.InFlight)
	require.EqualValues(t, 3, s.Max)
	require.EqualValues(t, 4, s.Total)
	require.EqualValues(t, 16, s.Tokens)
	require.Equal(t, map[string]int64{"/v1/chat/completions": 4, "other": 1}, s.Paths)
	require.EqualValues(t, 1, s.Connections, "the one that asks")
}

func TestFaultsAreListedAndCleared(t *testing.T) {
	e := Start(t, Config{APIKey: "k"})
	require.Equal(t, `{"faults":2}`, func() string { _, b := post(t, e.URL+"/mock/faults", `[{"status":503},{"reset":true}]`); return b }())
	var faults []Fault
	require.NoError(t, json.Unmarshal([]byte(do(t, "GET", e.URL+"/mock/faults")), &faults))
	require.Equal(t, []Fault{{Status: 503}, {Reset: true}}, faults)
	do(t, "DELETE", e.URL+"/mock/faults")
	require.Equal(t, "[]", do(t, "GET", e.URL+"/mock/faults"))
	resp, _ := get(t, e.URL+"/mock/nope")
	require.Equal(t, 404, resp.StatusCode)
}

// Everything at once, for the race detector.
func TestManyClientsAtOnce(t *testing.T) {
	e := Start(t, Config{ITL: time.Microsecond, Keep: 5})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 20 {
				body := hello
				if (i+k)%2 == 0 {
					body = strings.TrimSuffix(hello, "}") + `,"stream":true}`
				}
				resp, err := client.Post(e.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err == nil {
					_ = resp.Body.Close() // some bodies are left unread
				}
				e.Requests()
				e.State()
			}
		})
	}
	wg.Wait()
	eventually(t, "all over", func() bool { return e.State().InFlight == 0 })
	require.EqualValues(t, 160, e.State().Total)
}
