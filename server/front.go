package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/smg-go/smg/pipeline"
)

// unmatched is the name under which the chain for requests without a route is served.
const unmatched = "other"

// newFront makes the web server's handler: it finds the route, and the runtime takes the request through the route's chain.
// Everything else, errors included, is the chains'.
func newFront(rt *pipeline.Runtime, routes []string, cors []string) http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	refusal, _ := pipeline.Assemble(unmatched, unknownURL()) // one stage that needs nothing: cannot fail
	d := door{rt, refusal, len(cors) > 0}
	if d.cors {
		e.Use(middleware.CORSWithConfig(corsConfig(cors)))
	}
	methods := map[string][]string{}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		handle := func(c echo.Context) error { return d.take(route, c, "") }
		alsoHead := method == http.MethodGet && !slices.Contains(routes, http.MethodHead+" "+path)
		path = strings.NewReplacer("{", ":", "}", "").Replace(path)
		e.Add(method, path, handle)
		methods[path] = append(methods[path], method)
		if alsoHead {
			e.Add(http.MethodHead, path, handle)
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for path, known := range methods { // else the router would answer OPTIONS by itself
		if slices.Contains(known, http.MethodOptions) {
			continue
		}
		allow := strings.Join(known, ", ")
		e.OPTIONS(path, func(c echo.Context) error { return d.take(unmatched, c, allow) })
	}
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		allow := ""
		if errors.Is(err, echo.ErrMethodNotAllowed) {
			allow = strings.Join(methods[c.Path()], ", ")
			c.Response().Header().Del("Allow") // the router's own list has the OPTIONS that only refuses
		}
		_ = d.take(unmatched, c, allow)
	}
	return e
}

// door is where requests come in.
type door struct {
	rt      *pipeline.Runtime
	refusal *pipeline.Chain // for what no chain is served for
	cors    bool            // the gateway says which origins may read answers
}

// take hands a request to its chain. allow lists the methods that its path knows, if it is refused for its own.
func (d door) take(route string, c echo.Context, allow string) error {
	cl := newClient(c.Response().Writer, c.Request())
	cl.allow, cl.ownsCORS = allow, d.cors
	defer cl.release()                                // last: it panics for an aborted response
	if served, _ := d.rt.Handle(route, cl); !served { // a chain has answered, and counted and logged what went wrong
		_ = d.refusal.Serve(cl)
	}
	return nil
}

// corsConfig is what browsers are told: the given origins alone, and nothing without the flag.
func corsConfig(origins []string) middleware.CORSConfig {
	return middleware.CORSConfig{
		Skipper:      noPreflight,
		AllowOrigins: origins,
		AllowMethods: []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"},
		ExposeHeaders: []string{
			"x-request-id", "request-id", "x-smg-routed-worker-id", "x-smg-error-code", "retry-after", "traceparent", "tracestate",
		},
		MaxAge: 3600,
	}
}

// noPreflight tells an OPTIONS that no browser sends, which is a method like any other.
func noPreflight(c echo.Context) bool {
	h := c.Request().Header
	return c.Request().Method == http.MethodOptions && (h.Get("Origin") == "" || h.Get("Access-Control-Request-Method") == "")
}
