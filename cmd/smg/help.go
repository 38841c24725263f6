package main

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// several is how kong shows a flag that takes several values. After "=" it would take just one.
var several = regexp.MustCompile(`(--[a-z-]+)=([A-Z=]+ \.\.\.)`)

// printHelp prints kong's help. Without a command it shows the commands first, and then the flags of the one that is meant.
func (c *cli) printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	var help bytes.Buffer
	if c.bare {
		printCommands(&help, ctx.Model)
	}
	if command := ctx.Selected(); command != nil && command.Name == "serve" {
		if err := c.printEngineHelp(&help, options); err != nil {
			return err
		}
	}
	stdout := ctx.Stdout
	ctx.Stdout = &help
	err := kong.DefaultHelpPrinter(options, ctx)
	ctx.Stdout = stdout
	if err != nil {
		return err
	}
	_, err = stdout.Write(several.ReplaceAll(help.Bytes(), []byte("$1 $2")))
	return err
}

// printCommands is the part of the help that comes before the flags of launch.
func printCommands(w io.Writer, app *kong.Application) {
	fmt.Fprint(w, "Usage: smg [command] [flags]\n\nA gateway in front of LLM inference engines.\n\nCommands:\n")
	for _, command := range app.Children {
		name := strings.Join(append([]string{command.Name}, command.Aliases...), ", ")
		if len(command.Children) == 1 {
			command = command.Children[0]
			name += " " + command.Name
		}
		fmt.Fprintf(w, "  %-17s  %s\n", name, command.Help)
	}
	fmt.Fprint(w, "\nVersion flags, with any command:\n  -V, --version, --version-verbose\n\nWithout a command:\n\n")
}
