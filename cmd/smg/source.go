package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// sources answer for the flags that the command line does not set: the environment first, then the file. Kong has both, but
// lets its file win over the environment, and takes an empty variable for a value.
type sources struct {
	file map[string]given // by the flag's name
}

var _ kong.Resolver = (*sources)(nil)

// Validate has nothing to say: unknown keys were found when the file was read.
func (*sources) Validate(*kong.Application) error { return nil }

// Resolve returns the value of a flag, or nil if the sources have none.
func (s *sources) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if name, value := environment(flag); value != "" {
		return given{texts: []string{value}, from: name}, nil
	}
	var found any
	for _, name := range namesOf(flag) {
		value, ok := s.file[name]
		switch {
		case ok && found != nil:
			return nil, fmt.Errorf("%s: '%s' is another name of '%s', which is set too", value.from, name, flag.Name)
		case ok:
			found = value
		}
	}
	return found, nil
}

// namesOf are a flag's name and its other names, without dashes.
func namesOf(flag *kong.Flag) []string { return slices.Concat([]string{flag.Name}, flag.Aliases) }

// given is a value from a source. It is a type of its own so that a mapper can tell it from one word of the command line.
type given struct {
	texts []string
	list  bool   // texts are the elements of a list; if not, there is one text, which may hold several of them
	from  string // for error messages: the variable, or the file and line
}

// variables are the names of the variables that back a flag, the first that is set wins. The prefix is not just SMG_, because
// Kubernetes sets SMG_PORT in every pod that can see a service called smg. Another name of the flag has a variable too.
func variables(flag *kong.Flag) []string {
	if flag.Name == "help" {
		return nil
	}
	if names := strings.Fields(flag.Tag.Get("variable")); len(names) > 0 { // well-known names, which replace the made one
		return names
	}
	var names []string
	for _, name := range namesOf(flag) {
		variable := "SMG_FLAG_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		if !slices.Contains(names, variable) { // two names may differ in "-" and "_" alone
			names = append(names, variable)
		}
	}
	return names
}

// environment returns the name and value of the variable that backs a flag; no variable, and an empty one, is no value.
func environment(flag *kong.Flag) (name, value string) {
	for _, name := range variables(flag) {
		if value := os.Getenv(name); value != "" {
			return name, value
		}
	}
	return "", ""
}
