package compose_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// instruction is one of a Dockerfile: its flags ("--from=build") apart, and the lines of a continued one joined.
type instruction struct {
	name  string
	flags []string
	rest  string
}

// flag is the value of a flag, "" if it is not given.
func (i instruction) flag(name string) string {
	for _, f := range i.flags {
		if value, ok := strings.CutPrefix(f, "--"+name+"="); ok {
			return value
		}
	}
	return ""
}

// stage is FROM and what follows it.
type stage struct {
	name, base   string
	instructions []instruction
}

// only is what follows the one instruction of a name.
func (s stage) only(t *testing.T, name string) string {
	t.Helper()
	found := []string{}
	for _, i := range s.instructions {
		if i.name == name {
			found = append(found, i.rest)
		}
	}
	require.Len(t, found, 1, "%s: %s", s.name, name)
	return found[0]
}

// entrypoint is the program and the arguments that every container of the stage begins with.
func (s stage) entrypoint(t *testing.T) (words []string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(s.only(t, "ENTRYPOINT")), &words), "not in the form that needs no shell")
	return words
}

// parseDockerfile reads what our Dockerfile uses of the language, and refuses the rest.
func parseDockerfile(text string) (stages []stage, err error) {
	text = regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(text, "")
	text = regexp.MustCompile(`\\\n`).ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		i := instruction{name: fields[0], rest: strings.TrimSpace(line[len(fields[0]):])}
		for strings.HasPrefix(i.rest, "--") {
			flag, rest, _ := strings.Cut(i.rest, " ")
			i.flags, i.rest = append(i.flags, flag), strings.TrimSpace(rest)
		}
		switch i.name {
		case "FROM":
			base, name, _ := strings.Cut(i.rest, " AS ")
			stages = append(stages, stage{name: name, base: base})
			continue
		case "ARG", "COPY", "ENTRYPOINT", "EXPOSE", "RUN", "USER", "WORKDIR":
		default:
			return nil, fmt.Errorf("these tests do not know %q: teach them", i.name)
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("%s before FROM", i.name)
		}
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, i)
	}
	return stages, nil
}

// dockerfile gives the stages of ours by name, and the name of the last one.
func dockerfile(t *testing.T) (stages map[string]stage, last string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	list, err := parseDockerfile(string(text))
	require.NoError(t, err)
	stages = map[string]stage{}
	for _, s := range list {
		stages[s.name], last = s, s.name
	}
	return stages, last
}

func TestWhatADockerfileSays(t *testing.T) {
	stages, err := parseDockerfile("# x\nFROM --platform=$P go:1 AS a\nRUN --mount=type=cache,target=/x \\\n  # y\n  b &&\\\n c\n\nFROM scratch AS z\nUSER 1:1\n")
	require.NoError(t, err)
	require.Equal(t, []stage{
		{name: "a", base: "go:1", instructions: []instruction{{"RUN", []string{"--mount=type=cache,target=/x"}, "b && c"}}},
		{name: "z", base: "scratch", instructions: []instruction{{"USER", nil, "1:1"}}},
	}, stages)
	for _, wrong := range []string{"FROM a AS b\nADD x y\n", "USER 1\n"} {
		_, err := parseDockerfile(wrong)
		require.Error(t, err, wrong)
	}
}

// What a cluster that runs no container as root asks of an image, and what a chart relies on: flags follow the entry point
// without a command.
func TestImagesRunAsNobodyInParticular(t *testing.T) {
	stages, last := dockerfile(t)
	require.Equal(t, "smg", last, "the image that is built without --target")
	for _, name := range []string{"smg", "mockengine"} {
		s := stages[name]
		require.Equal(t, "scratch", s.base)
		require.Equal(t, "65532:65532", s.only(t, "USER"), "a number: Kubernetes cannot tell of a name that it is not root")
		require.Equal(t, []string{"/" + name}, s.entrypoint(t))
	}
	defaults := server.Default()
	require.Equal(t, fmt.Sprint(defaults.Port, " ", defaults.PrometheusPort), stages["smg"].only(t, "EXPOSE"))
}

// The image of Go is as new as go.mod asks for: builds in it fetch no other.
func TestTheImageBuildsWithTheGoOfTheModule(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	wanted := regexp.MustCompile(`(?m)^go (1\.\d+)`).FindSubmatch(text)
	require.NotNil(t, wanted)
	stages, _ := dockerfile(t)
	require.Regexp(t, `^golang:`+regexp.QuoteMeta(string(wanted[1]))+`\b`, stages["build"].base)
}
