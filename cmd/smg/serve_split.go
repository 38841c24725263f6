package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// arity is how many words behind it a flag takes.
type arity int

const (
	noValue    arity = iota // a switch
	oneValue                //
	manyValues              // up to the next flag
	urlAndPort              // one, and a second one if that is a port
)

// split tells smg's own words of a command line from those for the engine, in the order they were given. Behind a bare "--" all
// are the engine's. Before it, a known flag and its values are smg's, and an unknown one with all words behind it up to the
// next flag is the engine's, and so are stray words. Names that begin with --router- are smg's, known or not: who misspells
// one shall hear of it from smg.
func split(tokens []string, known map[string]arity) (own, engine []string) {
	for len(tokens) > 0 {
		if tokens[0] == "--" {
			return own, append(engine, tokens[1:]...)
		}
		name, _, joined := strings.Cut(tokens[0], "=")
		takes, isKnown := known[name]
		n := 1
		switch {
		case joined && !strings.HasPrefix(name, "-"):
			isKnown = false // a stray word that holds "="
		case joined && isKnown && takes != urlAndPort:
		case isKnown:
			n += taken(tokens[1:], takes, joined)
		case strings.HasPrefix(name, "-"):
			n += len(leading(tokens[1:], isValue))
			isKnown = strings.HasPrefix(name, "--router-")
		}
		if isKnown {
			own = append(own, tokens[:n]...)
		} else {
			engine = append(engine, tokens[:n]...)
		}
		tokens = tokens[n:]
	}
	return own, engine
}

// taken is how many of the tokens are values of a flag before them. Its first value may be joined to it with "=".
func taken(tokens []string, takes arity, joined bool) int {
	switch takes {
	case oneValue:
		return min(1, len(leading(tokens, isValue)))
	case manyValues:
		return len(leading(tokens, isWord))
	case urlAndPort:
		n := 0
		if !joined {
			n = min(1, len(leading(tokens, isWord)))
		}
		if n < len(tokens) && (n == 1 || joined) && isPort(tokens[n]) {
			n++
		}
		return n
	default:
		return 0
	}
}

// leading are the first tokens that fulfil a condition.
func leading(tokens []string, fits func(string) bool) []string {
	if end := slices.IndexFunc(tokens, func(t string) bool { return !fits(t) }); end >= 0 {
		return tokens[:end]
	}
	return tokens
}

func isWord(token string) bool { return !strings.HasPrefix(token, "-") }

func isValue(token string) bool { return isWord(token) || negative.MatchString(token) }

// isPort accepts what may stand in the place of a port; whether it is one is found out later.
func isPort(token string) bool {
	return strings.EqualFold(token, "none") || token != "" && strings.Trim(token, "0123456789") == ""
}

// arities are the flags of a command by all their names, with their dashes.
func arities(flags []*kong.Flag) map[string]arity {
	known := map[string]arity{}
	for _, flag := range flags {
		takes := oneValue
		switch {
		case flag.IsBool():
			takes = noValue
		case flag.IsSlice(): // all lists of the command line are read by the mapper list
			takes = manyValues
		case flag.Tag.Type == "endpoint":
			takes = urlAndPort
		}
		for _, name := range append([]string{flag.Name}, flag.Aliases...) {
			known["--"+name] = takes
		}
		if flag.Short != 0 {
			known["-"+string(flag.Short)] = takes
		}
		if flag.Tag.Negatable != "" {
			known["--no-"+flag.Name] = noValue
		}
	}
	return known
}
