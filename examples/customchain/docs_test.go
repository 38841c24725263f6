package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
)

// page is the text that goes through this program.
const page = "../../docs/writing-a-stage.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// What the page shows as code stands in this program, letter by letter.
func TestThePageShowsTheCodeAsItIs(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var code []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		code = append(code, string(text))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readPage(t), -1)
	require.NotEmpty(t, blocks)
	for _, b := range blocks {
		found := false
		for _, text := range code {
			found = found || strings.Contains(text, b[1])
		}
		require.True(t, found, "no file of this folder has\n%s", b[1])
	}
}

// The refusals that the page shows are the ones that its edits of the chain give.
func TestThePageShowsTheRefusalsAsTheyAre(t *testing.T) {
	o := &options{}
	p := newParts(o, slog.New(slog.DiscardHandler))
	t.Cleanup(p.enroller.Close)
	chain, err := p.chain()
	require.NoError(t, err)
	bare, err := chain.Without("reserve")
	require.NoError(t, err)
	edits := map[string]struct {
		written string
		edit    func() (*pipeline.Chain, error)
	}{
		"too early":     {`chain.Before("candidates", Reserve())`, func() (*pipeline.Chain, error) { return bare.Before("candidates", Reserve()) }},
		"nobody gives":  {`chain.Without("tier")`, func() (*pipeline.Chain, error) { return chain.Without("tier") }},
		"twice":         {`chain.After("untried", Reserve())`, func() (*pipeline.Chain, error) { return chain.After("untried", Reserve()) }},
		"no such stage": {`chain.After("breakers", Reserve())`, func() (*pipeline.Chain, error) { return chain.After("breakers", Reserve()) }},
	}
	text := readPage(t)
	shown := regexp.MustCompile("(?s)<!-- refused: (.*?) -->\n```text\n(.*?)\n```").FindAllStringSubmatch(text, -1)
	require.Len(t, shown, len(edits))
	for _, s := range shown {
		edit, known := edits[s[1]]
		require.True(t, known, s[1])
		require.Contains(t, text, "`"+edit.written+"`")
		_, err := edit.edit()
		require.EqualError(t, err, s[2])
	}
}
