package server

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
)

// STYLE.md, section i; http-dataplane.md, section 15
func TestPageOfErrors(t *testing.T) {
	t.Parallel()
	m := mintIn(loaded(t))
	found := m.entries()
	require.Empty(t, m.complaints)
	rendered(t, "docs/errors.md", errorsPage(t, found))
}

// sneaky mints in all the ways that there are; what is wrong with each is said behind it.
const sneaky = `package sneaky

import "github.com/smg-go/smg/pipeline"

const byConstant = "sneaky_" + "constant"

var outside = pipeline.Error{Status: 400, Code: "sneaky_variable"} // sneaky_variable is a new code

func literal() error { return &pipeline.Error{Status: 400, Code: byConstant} } // sneaky_constant is a new code

func made(status int, code string) *pipeline.Error { return &pipeline.Error{Status: status, Code: code, Terminal: true} }

func passedOn(code string) error { return made(418, code) }

func caller() error { return passedOn("sneaky_argument") } // sneaky_argument is a new code

func retriedHere() error { return &pipeline.Error{Status: 503, Code: "model_not_found"} } // model_not_found is retried here and not elsewhere

func computed(suffix string) error { return made(418, "x"+suffix) } // the code of a pipeline.Error is a constant

func unknown(status func() int) error { return made(status(), "internal_error") } // the status of a pipeline.Error is a constant

func changed() { made(418, "internal_error").Code = "sneaky_assignment" } // give a pipeline.Error its Code in the literal

func inside() { func() { _ = pipeline.Error{400, "sneaky_place", "", "", false, false, 0, nil, nil, nil} }() } // name the fields of a pipeline.Error

func escaped(code string) error { return &pipeline.Error{Status: 400, Code: code} } // escaped makes errors and is used as a value

var value = escaped
`

// The test above sees a code wherever and however it is made, and says so if it cannot.
func TestACodeThatNobodyExplainsIsFound(t *testing.T) {
	all := loaded(t)
	m := mintIn(append(slices.Clone(all), checked(t, all, "sneaky.go", sneaky)))
	m.entries()
	complaints := strings.Join(m.complaints, "\n") + "\n"
	expected := 0
	for i, line := range strings.Split(sneaky, "\n") {
		if _, want, wrong := strings.Cut(line, " // "); wrong {
			expected++
			require.Regexp(t, fmt.Sprintf(`(?m)^sneaky.go:%d:\d+: %s`, i+1, regexp.QuoteMeta(want)), complaints)
		}
	}
	require.Len(t, m.complaints, expected, complaints)
}

// entry is what the page says of a code.
type entry struct {
	explanation
	statuses, params, messages []string
	retried                    bool
	retryAfter                 string
}

// entries gathers what was minted by code, and complains about what is not the same everywhere or not explained.
func (m *mint) entries() map[string]*entry {
	found := map[string]*entry{}
	for _, e := range m.found {
		retried := !e.terminal && slices.Contains(retriedStatuses, e.status)
		c := found[e.code]
		if c == nil {
			c = &entry{explanation: explanationOf(e.code), retried: retried, retryAfter: e.retryAfter}
			found[e.code] = c
			if c.when == "" {
				m.complaints = append(m.complaints, fmt.Sprintf("%s: %s is a new code; explain it in explanations", e.at, e.code))
			}
		}
		if c.retried != retried {
			m.complaints = append(m.complaints, fmt.Sprintf("%s: %s is retried here and not elsewhere", e.at, e.code))
		}
		c.statuses = addTo(c.statuses, strings.TrimSpace(fmt.Sprintf("%d %s", e.status, http.StatusText(e.status))))
		c.params = addTo(c.params, e.param)
		c.messages = addTo(c.messages, e.message)
	}
	for _, e := range found {
		slices.Sort(e.statuses)
	}
	for _, a := range explanations {
		for _, e := range a.codes {
			if found[e.code] == nil {
				m.complaints = append(m.complaints, e.code+" is explained, and nothing mints it any more")
			}
		}
	}
	return found
}

// retriedStatuses are those that the retry stage tries again; see stages.Retry.
var retriedStatuses = []int{408, 429, 500, 502, 503, 504}

func addTo(list []string, s string) []string {
	if s == "" || s == "…" && len(list) > 0 || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func explanationOf(code string) explanation {
	for _, a := range explanations {
		for _, e := range a.codes {
			if e.code == code {
				return e
			}
		}
	}
	return explanation{}
}

const errorsIntro = `# Errors

Every code of an error that smg makes itself, for whoever has met one. This page is rendered from the code: change it there, then run
` + "`go test ./server -run Page -update`" + `.

## How an error looks

The code is in the header ` + "`X-SMG-Error-Code`" + ` and, on most routes, in the body; codes do not change, messages may. The header
` + "`x-request-id`" + ` has the id under which the log knows the request. A worker's own error is relayed as it is, without
` + "`X-SMG-Error-Code`" + `: that header tells whose error it is. On routes for clients no message names a worker's URL, a file or a type.

`

const errorsIndex = `
## All codes

"Retried" says whether further attempts are made (` + "`--retry-max-retries`" + `) before the client sees the error. A request that is not
retried ends with it at once. Once a byte of an answer has gone to the client nothing is retried.

| Code | Status | Retried |
|---|---|---|
`

func errorsPage(t *testing.T, found map[string]*entry) string {
	var b strings.Builder
	b.WriteString(errorsIntro)
	writeForms(t, &b)
	b.WriteString(errorsIndex)
	for _, a := range explanations {
		for _, e := range a.codes {
			fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", e.code, strings.ToLower(e.code), strings.Join(found[e.code].statuses, ", "), found[e.code].again())
		}
	}
	for _, a := range explanations {
		fmt.Fprintf(&b, "\n## %s\n", a.title)
		if a.intro != "" {
			fmt.Fprintf(&b, "\n%s\n", a.intro)
		}
		for _, e := range a.codes {
			found[e.code].write(&b, a.do)
		}
	}
	return b.String()
}

func (e *entry) again() string {
	if e.retried {
		return "yes"
	}
	return "no"
}

// write is one code's part of the page.
func (e *entry) write(b *strings.Builder, advice string) {
	fmt.Fprintf(b, "\n### %s\n\n**%s**, %s", e.code, strings.Join(e.statuses, "** or **"), map[bool]string{true: "retried", false: "not retried"}[e.retried])
	if params := strings.Join(e.params, "`, `"); params != "" {
		fmt.Fprintf(b, ", `param` is %s", strings.ReplaceAll("`"+params+"`", "`…`", "the field at fault"))
	}
	switch e.retryAfter {
	case "":
	case "…":
		b.WriteString(", with `Retry-After`")
	default:
		fmt.Fprintf(b, ", with `Retry-After: %s`", e.retryAfter)
	}
	b.WriteString(".\n")
	for _, message := range e.messages {
		if message != "…" {
			fmt.Fprintf(b, "\n> %s\n", message)
		}
	}
	fmt.Fprintf(b, "\nWhen: %s\n\nWhat to do: %s\n", e.when, cmp.Or(e.do, advice))
}

// form is one of the forms of errors, with a request that is answered in it.
type form struct{ title, path, body string }

var forms = []form{
	{
		"OpenAI's, on all routes but the following. `type` is `rate_limit_error` for 429, `server_error` for 5xx, else `invalid_request_error`; `param` is the field at fault or null.",
		"/v1/chat/completions", `{"model":"m","messages":[]}`,
	},
	{
		"Anthropic's, on `/v1/messages`. The code is in the header alone; `type` follows from the status.",
		"/v1/messages", `{"model":"m","messages":[]}`,
	},
	{"That of the worker API, on `/workers`.", "/workers", `{"url":"gpu1:8000"}`},
}

// writeForms asks a gateway, so that the examples are what it answers.
func writeForms(t *testing.T, b *strings.Builder) {
	g := start(t, nil)
	for _, f := range forms {
		r := g.post(t, f.path, f.body, "X-Request-Id", "req-1")
		fmt.Fprintf(b, "%s\n\n```http\nHTTP/1.1 %s\n", f.title, r.Status)
		for _, name := range []string{"Content-Type", "X-SMG-Error-Code", "X-Request-Id"} {
			require.NotEmpty(t, r.Header.Get(name), "%s of %s", name, f.path)
			fmt.Fprintf(b, "%s: %s\n", strings.ToLower(name), r.Header.Get(name))
		}
		fmt.Fprintf(b, "\n%s\n```\n\n", r.Body)
	}
	cut := &pipeline.Error{Status: http.StatusBadGateway, Code: "stream_error", Message: "The worker's answer broke off"}
	fmt.Fprintf(b, "In a stream that has begun, as its last event; then the connection is cut:\n\n```text\n%s```\n\nThe same on `/v1/messages`:\n\n```text\n%s```\n",
		strings.TrimSuffix(string(forward.OpenAIStream.ErrorEvent(cut, "req-1")), "\n"), strings.TrimSuffix(string(forward.AnthropicStream.ErrorEvent(cut, "req-1")), "\n"))
}
