package launch

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// engine is how a kind of engine is started as an HTTP server.
type engine struct {
	module string   // of Python
	model  string   // flag that names the model
	usage  string   // switch for cached tokens in the usage
	owned  []string // flags that are set here, each with one value
}

// engines are those of cli.md, section 8.5, that speak HTTP.
var engines = map[string]engine{
	SGLang: {
		module: "sglang.launch_server", model: "--model-path", usage: "--enable-cache-report",
		owned: []string{"--model-path", "--model", "--host", "--port"},
	},
	VLLM: {
		module: "vllm.entrypoints.openai.api_server", model: "--model", usage: "--enable-prompt-tokens-details",
		owned: []string{"--model", "--host", "--port", "--uds"},
	},
}

func (e engine) argv(s Spec, host string, port int) []string {
	argv := []string{s.Python, "-m", e.module, e.model, s.Model, "--host", host, "--port", strconv.Itoa(port)}
	if s.UsageDetails {
		argv = append(argv, e.usage)
	}
	if s.TensorParallel > 0 {
		argv = append(argv, "--tensor-parallel-size", strconv.Itoa(s.TensorParallel)) // every engine knows this spelling
	}
	return append(argv, without(s.EngineArgs, e.owned)...)
}

// without takes flags and their values out of a command line: --flag value and --flag=value. A flag that lacks its value
// does not take the flag behind it along.
func without(args, flags []string) (rest []string) {
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		if !slices.Contains(flags, name) {
			rest = append(rest, args[i])
			continue
		}
		if !joined && i+1 < len(args) && isValue(args[i+1]) {
			i++
		}
	}
	return rest
}

var number = regexp.MustCompile(`^-[0-9.]`)

// isValue tells a flag's value from the next flag; a negative number is a value.
func isValue(token string) bool { return !strings.HasPrefix(token, "-") || number.MatchString(token) }

var (
	errQuote   = errors.New("the engine command has a quote that is not closed")
	errNoWords = errors.New("the engine command is empty")
)

// words splits a command as a shell does that expands nothing: at blanks; '...' and "..." keep what is in them, and outside of
// '...' a backslash keeps the character behind it.
func words(command string) (list []string, err error) {
	var word strings.Builder
	var quote rune // open quote, or 0
	open, escaped := false, false
	for _, r := range command {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			open, escaped = true, true
		case r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && strings.ContainsRune(" \t\n", r):
			if open {
				list = append(list, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 || escaped {
		return nil, errQuote
	}
	if open {
		list = append(list, word.String())
	}
	if len(list) == 0 || list[0] == "" {
		return nil, errNoWords
	}
	return list, nil
}

// secret are the flags whose values stay out of the log.
var secret = regexp.MustCompile(`^--?[a-zA-Z_-]*(key|token|password|secret)s?$`)

// masked is a command for the log.
func masked(argv []string) string {
	shown := slices.Clone(argv)
	for i, arg := range argv {
		name, _, joined := strings.Cut(arg, "=")
		switch {
		case !secret.MatchString(name):
		case joined:
			shown[i] = name + "=***"
		case i+1 < len(argv):
			shown[i+1] = "***"
		}
	}
	return strings.Join(shown, " ")
}
