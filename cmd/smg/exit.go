package main

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/smg-go/smg/server"
	"github.com/smg-go/smg/workers/launch"
)

// The exit codes of smg.
const (
	exitOK     = 0   // also a clean stop after a signal
	exitFailed = 1   // an invalid configuration, an unreadable file, or a gateway that could not start or go on
	exitUsage  = 2   // a command line, a variable or a file that cannot be understood
	exitSignal = 128 // plus its number: the signal that stopped serve before the gateway was up
)

// report writes an error for the user to read, and returns the exit code that it means.
func report(stderr io.Writer, err error) int {
	var violations invalid
	var misuse *usageError
	var interrupted *launch.Interrupted
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &violations):
		for _, v := range violations {
			fmt.Fprintf(stderr, "error: %s\n", v)
		}
		return exitFailed
	case errors.As(err, &misuse):
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(stderr, "error: %s\n", line)
		}
		fmt.Fprintf(stderr, "run '%s --help' for the flags\n", misuse.command)
		return exitUsage
	case errors.As(err, &interrupted):
		return exitSignal + int(interrupted.Signal) // whoever sent the signal knows, and the log says so
	default:
		fmt.Fprintf(stderr, "error: %s\n", err)
		return exitFailed
	}
}

// invalid is a configuration with values that the gateway cannot start with.
type invalid []server.Violation

func (v invalid) Error() string { return fmt.Sprintf("%d invalid values", len(v)) }

// usageError is something that cannot be understood.
type usageError struct {
	text    string
	command string // whose help would have told
}

func (e *usageError) Error() string { return e.text }

// retired are names that flags had once. They are not accepted, but who uses one learns the new name.
var retired = map[string]string{"--stream-request-bodies-over": "--max-buffered-request-bytes"}

var (
	unknownFlag    = regexp.MustCompile(`^unknown flag (\S+?)(,.*)?$`)
	unexpectedWord = regexp.MustCompile(`^unexpected argument (\S+)$`)
)

// usage turns an error of the parser into one for the user.
func usage(parser *kong.Kong, args []string, err error) error {
	if errors.Is(err, errUnreadable) {
		return err
	}
	command := "smg launch"
	if isCommand(parser, args[0]) {
		command = "smg " + args[0]
	}
	text := explained(parser, withoutKeys(parser, args, err.Error()))
	if name := unknownFlag.FindStringSubmatch(err.Error()); name != nil && command == serveCommand && isForEngines(name[1]) {
		text = "unknown flag " + name[1] + ": it is for engines, and serve starts them only with --model, --backend or --engine-command"
	}
	return &usageError{text: text, command: command}
}

// explained adds to the text of an error what kong does not know, and takes the quotes from the names it suggests.
func explained(parser *kong.Kong, text string) string {
	if name := unknownFlag.FindStringSubmatch(text); name != nil && retired[name[1]] != "" {
		return "unknown flag " + name[1] + ", did you mean " + retired[name[1]] + "?"
	}
	if word := unexpectedWord.FindStringSubmatch(text); word != nil && isCommand(parser, word[1]) {
		return text + "; a command must be the first word"
	}
	problem, hint, found := strings.Cut(text, ", did you mean ")
	if !found || hint == `"-h"?` { // it is near every short flag
		return problem
	}
	return problem + ", did you mean " + strings.ReplaceAll(hint, `"`, "")
}

func isCommand(parser *kong.Kong, word string) bool {
	return slices.ContainsFunc(parser.Model.Children, func(n *kong.Node) bool {
		return n.Name == word || slices.Contains(n.Aliases, word)
	})
}
