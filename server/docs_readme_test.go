package server

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The README's picture is what the program prints.
func TestPageOfTheREADMEShowsTheWayOfAChatRequest(t *testing.T) {
	const route, begin, end = "POST /v1/chat/completions", "<!-- pipelines:begin -->\n", "<!-- pipelines:end -->\n"
	page, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	before, rest, began := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, began && ended, "README.md needs the lines %s%s", begin, end)

	var graph bytes.Buffer
	require.NoError(t, Pipelines(Default(), route, "mermaid", &graph))
	picture := "The way of a chat request, as `smg pipelines --mermaid --route \"" + route + "\"` draws it; in italics, what a stage finds out:\n\n```mermaid\n" + graph.String() + "```\n"
	rendered(t, "README.md", before+begin+picture+end+after)
}
