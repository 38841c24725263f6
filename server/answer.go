package server

import (
	"encoding/json"
	"net/http"

	"github.com/smg-go/smg/pipeline"
)

// answer writes a whole response.
func answer(x *pipeline.Exchange, status int, contentType string, body []byte, fields ...pipeline.Field) error {
	fields = append(fields, pipeline.Field{Name: "Content-Type", Value: contentType})
	if err := x.WriteHead(status, int64(len(body)), fields); err != nil {
		return pipeline.ErrClientGone
	}
	if _, err := x.Client.Write(body); err != nil {
		return pipeline.ErrClientGone
	}
	return nil
}

// answerJSON writes a value as the response.
func answerJSON(x *pipeline.Exchange, status int, v any, fields ...pipeline.Field) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return answer(x, status, "application/json", body, fields...)
}

// adminForm is the form of errors on the routes that operators use. Who may not ask is told so as everywhere.
func adminForm(e *pipeline.Error, id string) (contentType string, body []byte) {
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		return pipeline.OpenAIForm(e, id)
	}
	body, _ = json.Marshal(struct { // strings alone: cannot fail
		Error string `json:"error"`
		Code  string `json:"code"`
	}{e.Message, e.Code})
	return "application/json", body
}

// unknownURL answers requests that no route takes: 404, or 405 with the methods that the path knows.
func unknownURL() pipeline.Stage {
	return pipeline.StageFunc("unknown_url", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		asked := x.Client.Method() + " " + x.Client.Path()
		if c, ok := x.Client.(*client); ok && c.allow != "" {
			return &pipeline.Error{
				Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "Method not allowed (" + asked + ")",
				Fields: []pipeline.Field{{Name: "Allow", Value: c.allow}}, Terminal: true,
			}
		}
		return &pipeline.Error{
			Status: http.StatusNotFound, Code: "unknown_url", Message: "Invalid URL (" + asked + ")", Terminal: true,
		}
	})
}
