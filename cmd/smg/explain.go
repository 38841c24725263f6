package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/stages"
)

// explainCmd asks a gateway that runs what it would do with a request.
type explainCmd struct {
	URL     string         `name:"url" default:"http://127.0.0.1:30000" help:"The gateway."`
	Route   string         `name:"route" default:"/v1/chat/completions" help:"Route that the request would be sent to."`
	Headers []string       `name:"header" short:"H" sep:"none" placeholder:"NAME:VALUE" help:"Header that the request would carry, such as 'X-SMG-Routing-Key: a'. May be repeated."`
	Timeout server.Seconds `name:"timeout" default:"10" help:"Seconds that the gateway gets to answer (at least 1)."`
	JSON    bool           `name:"json" help:"Print the gateway's answer as it is."`
	File    string         `arg:"" optional:"" default:"-" help:"The request's body; - is standard input."`
}

// Run asks, and prints the answer. That the request would be refused is an answer too.
func (e *explainCmd) Run(c *cli) error {
	if e.Timeout < 1 {
		return invalid{{Flag: "--timeout", Value: fmt.Sprint(e.Timeout), Reason: "must be at least 1"}}
	}
	req, err := e.request(c)
	if err != nil {
		return err
	}
	answer, err := e.ask(req)
	if err != nil {
		return err
	}
	if e.JSON {
		_, err := c.stdout.Write(append(bytes.TrimRight(answer, "\n"), '\n'))
		return err
	}
	var found stages.Explanation
	if err := json.Unmarshal(answer, &found); err != nil || found.Route == "" {
		return fmt.Errorf("%s has answered something else than an explanation: %.200q", e.URL, answer)
	}
	return writeExplanation(c.stdout, &found)
}

func (e *explainCmd) request(c *cli) (*http.Request, error) {
	base, err := url.Parse(e.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, invalid{{Flag: "--url", Value: e.URL, Reason: "must be a URL with http:// or https://"}}
	}
	body, err := e.body(c.stdin)
	if err != nil {
		return nil, err
	}
	at := base.JoinPath("explain")
	at.RawQuery = url.Values{"route": {e.Route}}.Encode()
	req, err := http.NewRequest(http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for _, h := range e.Headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || textproto.TrimString(name) == "" {
			return nil, invalid{{Flag: "--header", Value: h, Reason: "must be of the form NAME:VALUE"}}
		}
		req.Header.Set(textproto.TrimString(name), textproto.TrimString(value))
	}
	return req, nil
}

func (e *explainCmd) body(stdin io.Reader) ([]byte, error) {
	if e.File == "-" {
		return io.ReadAll(stdin)
	}
	body, err := os.ReadFile(e.File)
	if err != nil {
		return nil, fmt.Errorf("cannot read the request's body: %w", err)
	}
	return body, nil
}

// ask sends the question. An answer other than 200 is the gateway's refusal to explain, or somebody else's.
func (e *explainCmd) ask(req *http.Request) ([]byte, error) {
	client := &http.Client{Timeout: e.Timeout.Duration()}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // it repeats the whole URL
		}
		return nil, fmt.Errorf("the gateway at %s cannot be asked: %w", e.URL, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the answer of %s broke off: %w", e.URL, err)
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	return nil, fmt.Errorf("%s does not explain: %s", e.URL, refusalOf(resp, answer))
}

// refusalOf is what an error response says in one line.
func refusalOf(resp *http.Response, body []byte) string {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	var sentence string
	var detail struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &said)
	if json.Unmarshal(said.Error, &sentence) == nil && sentence != "" {
		return sentence
	}
	if json.Unmarshal(said.Error, &detail) == nil && detail.Message != "" {
		return fmt.Sprintf("%s: %s", resp.Status, detail.Message)
	}
	return resp.Status
}
