package main

import "github.com/smg-go/smg/server"

// run serves until a signal ends it. The server handles the signals itself, since the second and the third mean something else
// than the first.
var run = server.Run

// pipelines writes the stages of a route, or of each if it is ""; format is "text", "json" or "mermaid".
var pipelines = server.Pipelines
