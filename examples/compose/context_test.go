package compose_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ignored tells which files a .dockerignore keeps from the build.
type ignored []ignoreRule

type ignoreRule struct {
	path *regexp.Regexp
	back bool // with "!": not ignored after all
}

// parseIgnore reads patterns as Docker does: paths from the root of the context, in which * and ? stand within a folder and
// **/ for any number of folders; a folder takes with it what is below, and the last pattern that fits decides.
func parseIgnore(text string) (rules ignored) {
	forms := strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*\*`, `.*`, `\*`, `[^/]*`, `\?`, `[^/]`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, back := strings.CutPrefix(line, "!")
		pattern = forms.Replace(regexp.QuoteMeta(strings.Trim(pattern, "/")))
		rules = append(rules, ignoreRule{regexp.MustCompile(`^` + pattern + `(/.*)?$`), back})
	}
	return rules
}

func (rules ignored) has(path string) (out bool) {
	for _, r := range rules {
		if r.path.MatchString(path) {
			out = !r.back
		}
	}
	return out
}

func TestWhatIsIgnored(t *testing.T) {
	rules := parseIgnore("# x\n.*\ndocs\n**/*.md\n/bin/\nas/*/c\n!docs/keep\n")
	for path, out := range map[string]bool{
		".git": true, ".git/config": true, "a/.hidden": false, "docs": true, "docs/a/b": true, "docsa": false, "README.md": true, "a/b/x.md": true,
		"a/md": false, "bin/smg": true, "a/bin": false, "as/b/c": true, "as/b/b/c": false, "docs/keep": false, "main.go": false,
	} {
		require.Equal(t, out, rules.has(path), path)
	}
}

func dockerignore(t *testing.T) ignored {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	require.NoError(t, err)
	return parseIgnore(string(text))
}

// buildContext copies what a builder gets to see.
func buildContext(t *testing.T) string {
	t.Helper()
	rules, to := dockerignore(t), t.TempDir()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil || name == "." {
			return err
		}
		switch {
		case rules.has(filepath.ToSlash(name)) && d.IsDir():
			return fs.SkipDir // no pattern of ours brings back what is below an ignored folder
		case rules.has(filepath.ToSlash(name)):
			return nil
		case d.IsDir():
			return os.Mkdir(filepath.Join(to, name), 0o755)
		}
		return copyFile(path, filepath.Join(to, name))
	})
	require.NoError(t, err)
	return to
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// Every file of ours that Go reads to build the programs is in the context, and so is what COPY names.
func TestNothingThatTheBuildNeedsIsIgnored(t *testing.T) {
	rules := dockerignore(t)
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,Module,GoFiles,SFiles,EmbedFiles", "./cmd/smg", "./cmd/mockengine")
	cmd.Dir = root
	out, err := cmd.Output()
	require.NoError(t, err)
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	files := []string{}
	for in := json.NewDecoder(bytes.NewReader(out)); in.More(); {
		var p struct {
			Dir                         string
			Module                      *struct{ Main bool }
			GoFiles, SFiles, EmbedFiles []string
		}
		require.NoError(t, in.Decode(&p))
		if p.Module == nil || !p.Module.Main {
			continue
		}
		dir, err := filepath.Rel(top, p.Dir)
		require.NoError(t, err)
		for _, list := range [][]string{p.GoFiles, p.SFiles, p.EmbedFiles} {
			for _, name := range list {
				files = append(files, filepath.Join(dir, name))
			}
		}
	}
	require.NotEmpty(t, files)
	stages, _ := dockerfile(t)
	for _, i := range stages["build"].instructions {
		if words := strings.Fields(i.rest); i.name == "COPY" {
			files = append(files, words[:len(words)-1]...)
		}
	}
	for _, name := range files { // "." is the context itself
		require.False(t, name != "." && rules.has(filepath.ToSlash(name)), name)
		_, err := os.Stat(filepath.Join(top, name))
		require.NoError(t, err)
	}
}
