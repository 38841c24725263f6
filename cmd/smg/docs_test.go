package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite docs/flags.md; read what has changed")

const flagsIntro = `# Commands and flags

What can be typed after ` + "`smg`" + `, for whoever starts it. This page is rendered from the code: change it there, then run
` + "`go test ./cmd/smg -run Page -update`" + `.

## Where a value comes from

From the first of: the flag, its environment variable, the configuration file (` + "`--config`" + `), the default. A variable that is empty is
not set. In the file, a key may be written with ` + "`-` or `_`" + `, and one without a value keeps its default; ` + "`smg config check`" + ` prints
the result in a form that ` + "`--config`" + ` reads. A flag with several names has them in the environment and the file as well.

A value follows its flag after a blank or after ` + "`=`" + `. A list takes all words up to the next flag, may be repeated, and replaces its
default; as an environment variable it is one text, split at blanks and commas. A switch takes no value, or one after ` + "`=`" + `
(` + "`--log-json=false`" + `). The last of several single values counts. Every command has ` + "`-h`, `--help`" + `, and with any command
` + "`-V`, `--version` and `--version-verbose`" + ` print the version instead.
`

// cli.md, sections 1 to 5; STYLE.md, section i
func TestPageOfFlags(t *testing.T) {
	const page = "../../docs/flags.md"
	got := flagsPage(t)
	if *update {
		require.NoError(t, os.WriteFile(page, got, 0o644))
	}
	want, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the page and the code differ; run: go test ./cmd/smg -run Page -update")
}

// Whatever is added to the command line is on the page, wherever it was added.
func TestPageOfFlagsHasEveryCommandAndEveryFlag(t *testing.T) {
	page := string(flagsPage(t))
	for _, command := range leaves(commandLine(t).Node) {
		require.Contains(t, page, "\n## smg "+typed(command)+"\n")
		require.NotEmpty(t, command.Help, typed(command))
		for _, f := range flagsOf(command) {
			require.Equal(t, 1, strings.Count(section(page, f, command), "\n| `--"+f.Name+"`"), "%s --%s", typed(command), f.Name)
		}
	}
}

// section is the part of the page where a flag has to be: that of its command, or of launch if launch has the same one.
func section(page string, f *kong.Flag, command *kong.Node) string {
	_, own, _ := strings.Cut(page, "\n## smg "+typed(command)+"\n")
	own, _, _ = strings.Cut(own, "\n## ")
	if !strings.Contains(own, "`--"+f.Name+"`") && strings.Contains(own, "All flags of [smg launch](#smg-launch)") {
		_, own, _ = strings.Cut(page, "\n## smg launch\n")
		own, _, _ = strings.Cut(own, "\n## ")
	}
	return own
}

// The values that the page promises are those that the mappers read.
func TestValuesOfFlags(t *testing.T) {
	tests := []struct{ flag, values, standard string }{
		{"port", "whole number", "`30000`"},
		{"health-check-port", "whole number", ""},
		{"worker-urls", "list of `URL`", ""},
		{"policy", "`random`, `round_robin`, `passthrough`, `cache_aware`, `power_of_two`, `least_load`, `prefix_hash`, `consistent_hashing`, `manual`, `bucket`, `least_work`", "`cache_aware`"},
		{"retry-jitter-factor", "number", "`0.2`"},
		{"request-timeout-secs", "whole seconds", "`1800`"},
		{"retry-initial-backoff-ms", "whole milliseconds", "`50`"},
		{"cache-boundaries", "list of `TOKENS`", ""},
		{"selector", "list of `LABEL=VALUE`", ""},
		{"service-discovery-namespace", "list of `NAMESPACE`", ""},
		{"discovery-provider", "`kubernetes`, `file`", ""},
		{"assignment-mode", "`random`, `min_load`, `min_group`, `delegate`", ""},
		{"log-json", "switch", "off"},
		{"log-dir", "text (`DIR`)", ""},
		{"request-id-headers", "list of `NAME`", "`x-request-id` `x-correlation-id` `x-trace-id` `request-id`"},
	}
	flags := map[string]*kong.Flag{}
	for _, f := range launchFlags(t) {
		flags[f.Name] = f
	}
	for _, tt := range tests {
		require.Equal(t, []string{tt.values, tt.standard}, []string{valuesOf(flags[tt.flag]), defaultOf(flags[tt.flag])}, tt.flag)
	}
}

func commandLine(t *testing.T) *kong.Application {
	t.Helper()
	c := &cli{stdout: io.Discard, stderr: io.Discard}
	grammar, err := kong.New(c, c.options()...)
	require.NoError(t, err)
	return grammar.Model
}

// typed is a command as it is typed after smg.
func typed(command *kong.Node) string {
	if command.Parent == nil || command.Parent.Type == kong.ApplicationNode {
		return command.Name
	}
	return typed(command.Parent) + " " + command.Name
}

// leaves are the commands that do something, in the order of the help.
func leaves(node *kong.Node) (found []*kong.Node) {
	if len(node.Children) == 0 {
		return []*kong.Node{node}
	}
	for _, child := range node.Children {
		if !child.Hidden {
			found = append(found, leaves(child)...)
		}
	}
	return found
}

func flagsPage(t *testing.T) []byte {
	app := commandLine(t)
	commands := leaves(app.Node)
	require.Equal(t, "launch", commands[0].Name, "other commands are described by what they have beside launch")
	var b bytes.Buffer
	b.WriteString(flagsIntro)
	p := flagsPrinter{t: t, out: &b, keys: knownKeys(app), launch: rowsByFlag(commands[0], knownKeys(app))}
	for i, command := range commands {
		p.command(command, i == 0)
	}
	writeExitCodes(t, &b)
	return b.Bytes()
}

// writeExitCodes takes the codes and what they mean from where they are declared.
func writeExitCodes(t *testing.T, b *bytes.Buffer) {
	f, err := parser.ParseFile(token.NewFileSet(), "exit.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	b.WriteString("\n## Exit codes\n\n| Code | When |\n|---|---|\n")
	for _, decl := range f.Decls {
		consts, ok := decl.(*ast.GenDecl)
		if !ok || consts.Tok != token.CONST {
			continue
		}
		for _, spec := range consts.Specs {
			code := spec.(*ast.ValueSpec)
			if !strings.HasPrefix(code.Names[0].Name, "exit") {
				continue
			}
			meaning := strings.TrimSpace(code.Comment.Text())
			require.NotEmpty(t, meaning, code.Names[0].Name)
			fmt.Fprintf(b, "| %s | %s%s. |\n", code.Values[0].(*ast.BasicLit).Value, strings.ToUpper(meaning[:1]), meaning[1:])
		}
	}
}

// flagsPrinter writes the page. Most commands take the flags of launch, which are not listed again.
type flagsPrinter struct {
	t      *testing.T
	out    *bytes.Buffer
	keys   map[string]bool
	launch map[string]string
}

func (p flagsPrinter) command(command *kong.Node, launch bool) {
	fmt.Fprintf(p.out, "\n## smg %s\n\n%s", typed(command), command.Help)
	if len(command.Aliases) > 0 {
		fmt.Fprintf(p.out, " Also called `smg %s`.", strings.Join(command.Aliases, "`, `smg "))
	}
	fmt.Fprintln(p.out)
	for _, argument := range command.Positional {
		fmt.Fprintf(p.out, "\n`%s`: %s\n", argument.Summary(), argument.Help)
	}
	own := rowsByFlag(command, p.keys)
	flags := flagsOf(command)
	if !launch && containsAll(own, p.launch) {
		fmt.Fprint(p.out, "\nAll flags of [smg launch](#smg-launch)")
		flags = slices.DeleteFunc(flags, func(f *kong.Flag) bool { _, known := p.launch[f.Name]; return known })
		fmt.Fprintln(p.out, map[bool]string{true: ".", false: ", and:"}[len(flags) == 0])
	}
	p.groups(flags, own)
	if command.Name == "serve" {
		p.engines()
	}
}

func containsAll(rows, others map[string]string) bool {
	for name, row := range others {
		if rows[name] != row {
			return false
		}
	}
	return true
}

// groups writes the flags under the headings of the help, those without a heading first.
func (p flagsPrinter) groups(flags []*kong.Flag, rows map[string]string) {
	heading := "none yet"
	titles := []string{""}
	for _, f := range flags {
		if title := groupOf(f); !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
	}
	for _, title := range titles {
		for _, f := range flags {
			if groupOf(f) != title {
				continue
			}
			if title != heading {
				heading = title
				if title != "" {
					fmt.Fprintf(p.out, "\n### %s\n", title)
				}
				fmt.Fprint(p.out, "\n| Flag | Values | Default | Environment | Key in the file | What it does |\n|---|---|---|---|---|---|\n")
			}
			p.out.WriteString(rows[f.Name])
		}
	}
}

func groupOf(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Title
}

// flagsOf are a command's flags but the one for help, which all have.
func flagsOf(command *kong.Node) (flags []*kong.Flag) {
	for _, f := range command.Flags {
		if f.Name != "help" && !f.Hidden {
			flags = append(flags, f)
		}
	}
	return flags
}

// rowsByFlag are the lines of a command's table by flag. A command that reads no configuration knows neither file nor environment.
func rowsByFlag(command *kong.Node, keys map[string]bool) map[string]string {
	rows := map[string]string{}
	flags := flagsOf(command)
	configured := slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == "config" })
	for _, f := range flags {
		var environment []string
		key := ""
		if configured {
			environment = variables(f)
		}
		if configured && keys[f.Name] {
			key = f.Name
		}
		rows[f.Name] = flagRow(f, environment, key)
	}
	return rows
}

func flagRow(f *kong.Flag, environment []string, key string) string {
	names := append([]string{"--" + f.Name}, aliasesOf(f)...)
	if f.Short != 0 {
		names = append(names, "-"+string(f.Short))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n",
		inCode(names...), valuesOf(f), defaultOf(f), inCode(environment...), inCode(key), helpOf(f))
}

// inCode are names as a cell of a table shows them.
func inCode(names ...string) string {
	if text := strings.Join(names, "`, `"); text != "" {
		return "`" + text + "`"
	}
	return ""
}

// helpOf is the help text and what else there is to know. A bar would end the cell.
func helpOf(f *kong.Flag) string {
	text := f.Help
	if f.Tag.Has("secret") {
		text += " Secret: `smg config check` does not print it."
	}
	if len(f.Xor) > 0 {
		text += " At most one flag of the kind " + strings.Join(f.Xor, ", ") + "."
	}
	return strings.ReplaceAll(text, "|", `\|`)
}

// units are the types of the configuration whose numbers measure something.
var units = map[string]string{"Seconds": "whole seconds", "Milliseconds": "whole milliseconds", "Duration": "time, such as `1.5s`"}

func valuesOf(f *kong.Flag) string {
	if f.Enum != "" {
		return inCode(f.EnumSlice()...)
	}
	kind := f.Target.Type()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if unit := units[kind.Name()]; unit != "" {
		return unit
	}
	placeholder := strings.TrimSuffix(f.PlaceHolder, " ...")
	switch kind.Kind() {
	case reflect.Bool:
		return "switch"
	case reflect.Int, reflect.Int64:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of `" + placeholder + "`"
	}
	if placeholder == "" {
		return "text"
	}
	return "text (`" + placeholder + "`)"
}

func defaultOf(f *kong.Flag) string {
	switch {
	case f.IsBool() && !f.HasDefault:
		return "off"
	case !f.HasDefault:
		return ""
	case f.IsSlice():
		return "`" + strings.Join(strings.Fields(f.Default), "` `") + "`"
	}
	return "`" + f.Default + "`"
}

// The keys of the file are the flags of launch, so that every flag of the page that has a key is one.
func TestKeysOfThePageAreThoseOfTheFile(t *testing.T) {
	app := commandLine(t)
	keys := knownKeys(app)
	names := slices.Sorted(maps.Keys(keys))
	require.Contains(t, names, "port")
	require.NotContains(t, rowsByFlag(app.Children[0], keys)["config"], "| `config` |")
}
