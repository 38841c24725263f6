package docs

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// span is a piece of code in a sentence, such as `smg pipelines --json`.
var span = regexp.MustCompile("`([^`]+)`")

// link is the target of a link or picture.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// metric is a metric's name, and series what a histogram's name has behind it.
var (
	metric = regexp.MustCompile(`^smg_[a-z0-9_]+[a-z0-9]$`)
	series = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// flag is a flag's name.
var flag = regexp.MustCompile(`^--[a-z][a-z0-9-]+$`)

// What a sentence mentions exists: flags, commands of smg, metrics, recipes of just, folders and files.
func TestWhatPagesMentionExists(t *testing.T) {
	known := flags(t)
	for _, name := range sorted(pages) {
		t.Run(name, func(t *testing.T) {
			for _, f := range mentions(name, pages[name], known) {
				t.Error(f)
			}
		})
	}
}

// recipe is a recipe's name at the head of its line in the justfile.
var recipe = regexp.MustCompile(`(?m)^([a-z][a-z-]*)[^:\n]*:`)

// The pages' other commands for developers: see notRun.
func TestRecipesOfJustExist(t *testing.T) {
	recipes := map[string]bool{}
	for _, found := range recipe.FindAllStringSubmatch(string(snapshot["justfile"].text), -1) {
		recipes[found[1]] = true
	}
	for _, name := range sorted(pages) {
		for _, found := range regexp.MustCompile("(?m)(?:^ *|`|\\$ )just ([a-z][a-z-]*)").FindAllStringSubmatch(pages[name], -1) {
			require.True(t, recipes[found[1]], "%s: just has no recipe %s", name, found[1])
		}
	}
}

// mentions are the things in a page's sentences that do not exist.
func mentions(page, text string, known map[string]bool) (missing []failure) {
	_, prose := blocksOf(text)
	for i, line := range prose {
		miss := func(format string, args ...any) {
			missing = append(missing, failure{page, i + 1, fmt.Sprintf(format, args...)})
		}
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			if target, _, _ := strings.Cut(found[1], "#"); target != "" && !strings.Contains(target, "://") && !exists(path.Join(path.Dir(page), target)) {
				miss("the link leads nowhere: %s", found[1])
			}
		}
		for _, found := range span.FindAllStringSubmatch(line, -1) {
			code := found[1]
			for _, word := range words(code) { // a quoted one may hold another program's flags
				name, _, _ := strings.Cut(word, "=")
				if flag.MatchString(name) && !known[name] && !foreign(code) {
					miss("no program of this module has the flag %s", name)
				}
			}
			if !placed(code) {
				miss("there is no %s", code)
			}
			if metric.MatchString(code) && !counted(code) && !counted(series.ReplaceAllString(code, "")) {
				miss("smg has no metric %s", code)
			}
			if sub := strings.Fields(code); sub[0] == "smg" && len(sub) > 1 && !strings.HasPrefix(sub[1], "-") && !known["smg "+sub[1]] && !strings.ContainsAny(code, "0123456789") {
				miss("smg has no command %s", sub[1])
			}
		}
	}
	return missing
}

// foreign tells whether a piece of code is about a program that is not ours, whose flags nobody here knows.
func foreign(code string) bool {
	first := strings.Fields(code)[0]
	return first != "smg" && first != "mockengine" && !strings.HasPrefix(first, "-") && first != "go"
}

// counted tells whether smg has a metric; that page is rendered from the code, too, a row for each.
func counted(name string) bool { return strings.Contains(pages["docs/metrics.md"], "\n| `"+name+"` |") }

// inTree is a piece of code that can only be a place in the checkout.
var inTree = regexp.MustCompile(`^\.?/?(?:cmd|discovery|docs|examples|pipeline|server|stages|telemetry|workers|\.ci)/[a-zA-Z0-9_./-]+$`)

func placed(code string) bool {
	name := strings.TrimPrefix(code, "./")
	return !inTree.MatchString(code) || strings.Contains(name, "NAME") || exists(name)
}

// exists tells whether the checkout has a file or a folder.
func exists(name string) bool {
	name = path.Clean(name)
	if _, file := snapshot[name]; file || name == "." {
		return true
	}
	for other := range snapshot {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

// engineFlags are flags of engines that a page may mention without a command around them.
var engineFlags = []string{"--kv-events-config", "--grpc", "--context-shift"}

// flags are the flags of the module's programs, and the commands of smg as "smg NAME", from what the programs say.
func flags(t *testing.T) map[string]bool {
	m := newMachine(t)
	known := map[string]bool{"--help": true}
	for _, found := range regexp.MustCompile("`(--[a-z][a-z0-9_-]*)`").FindAllStringSubmatch(pages["docs/flags.md"], -1) {
		known[found[1]] = true // that page is rendered from the code, further names of a flag included
	}
	for _, f := range engineFlags {
		known[f] = true
	}
	asked := []string{"mockengine --help", "smg --help", "smg config check --help"}
	out, err := m.run("for c in launch start serve demo doctor explain simulate pipelines config version; do smg $c --help >/dev/null && echo command $c; done")
	require.NoError(t, err, out)
	for _, found := range regexp.MustCompile(`(?m)^command (\w+)$`).FindAllStringSubmatch(out, -1) {
		known["smg "+found[1]] = true
		asked = append(asked, "smg "+found[1]+" --help")
	}
	for _, command := range asked {
		out, err := m.run(command)
		require.NoError(t, err, out)
		for _, found := range regexp.MustCompile(`(?:^|[\s,])(--?[a-z][a-z0-9-]*)`).FindAllStringSubmatch(out, -1) {
			known["--"+strings.TrimLeft(found[1], "-")] = true
		}
	}
	return known
}
