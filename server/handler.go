package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/smg-go/smg/pipeline"
)

// UnmatchedRoute is the route of the chain for requests that no other chain's route takes.
const UnmatchedRoute = unmatched

// Handler serves chains of one's own on net/http. It makes them the ones that rt serves, and takes each request to the chain of its
// route: a method and a path, such as "GET /v1/models/{model}", where {model} is any one segment. What answers GET answers HEAD.
// Requests for other paths (404 unknown_url) and other methods (405 method_not_allowed, with Allow) go to the chain for
// [UnmatchedRoute], or are answered in the form of OpenAI's API if there is none.
//
// Serving other chains of the same routes later is [pipeline.Runtime.Serve]; other routes need another handler. For what is asked of
// the server around it see [Gateway.Handler].
//
// The error is about a route, or that of [pipeline.Runtime.Serve].
func Handler(rt *pipeline.Runtime, chains ...*pipeline.Chain) (http.Handler, error) {
	routes, err := routesOf(chains)
	if err != nil {
		return nil, err
	}
	if err := rt.Serve(chains...); err != nil {
		return nil, err
	}
	return newFront(rt, routes, nil), nil
}

// UnknownURL is the stage that answers what no route takes, 404 or 405: the last one of a chain for [UnmatchedRoute], behind stages
// that count and log.
func UnknownURL() pipeline.Stage { return unknownURL() }

// Describe writes the stages of chains with what they need, give and use, as `smg pipelines` does: format is "text", "json" or
// "mermaid".
func Describe(w io.Writer, format string, chains ...*pipeline.Chain) error {
	switch format {
	case "text":
		return writeText(w, chains)
	case "json":
		return writeJSON(w, chains)
	case "mermaid":
		return writeMermaid(w, chains)
	}
	return fmt.Errorf("there is no format %q; there are text, json and mermaid", format)
}

// routesOf are the routes of chains, without that for what is unmatched. The error is about a route that could never be taken, or
// would be taken for another.
func routesOf(chains []*pipeline.Chain) (routes []string, err error) {
	spelt := map[string]string{} // paths by what they match
	for _, c := range chains {
		if c == nil || c.Route() == unmatched {
			continue // the runtime refuses what is nil
		}
		shape, err := shapeOf(c.Route())
		if err != nil {
			return nil, err
		}
		path := pathOf(c.Route())
		if other, known := spelt[shape]; known && other != path {
			return nil, fmt.Errorf("route %q: %s and %s are one path with two names; use the same", c.Route(), other, path)
		}
		spelt[shape] = path
		routes = append(routes, c.Route())
	}
	return routes, nil
}

// shapeOf checks a route, and returns its path without the names of the variable segments.
func shapeOf(route string) (string, error) {
	method, path, _ := strings.Cut(route, " ")
	if !httpguts.ValidHeaderFieldName(method) || !strings.HasPrefix(path, "/") { // methods and names of fields are the same tokens
		return "", fmt.Errorf("route %q is not a method and a path, such as POST /v1/chat/completions", route)
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		text, variable := s, strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}")
		if variable {
			text = s[1 : len(s)-1]
		}
		if variable && text == "" || strings.ContainsAny(text, "{}:*?# ") {
			return "", fmt.Errorf("route %q: a segment is plain text or one {name}; %q is neither", route, s)
		}
		if variable {
			segments[i] = "{}"
		}
	}
	return strings.Join(segments, "/"), nil
}
