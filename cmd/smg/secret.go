package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// withoutKeys is the text of an error about a word that the command line has too much. If it stands behind a flag for a secret, it is
// probably one as well, and is not repeated.
func withoutKeys(parser *kong.Kong, args []string, text string) string {
	word := unexpectedWord.FindStringSubmatch(text)
	if word == nil {
		return text
	}
	secrets := secretFlags(parser)
	secret := false
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			name, _, _ := strings.Cut(arg, "=")
			secret = slices.Contains(secrets, name)
		}
		if arg == word[1] && secret {
			return "unexpected argument *** behind a flag for keys"
		}
	}
	return text
}

// secretFlags are the flags whose values are not shown, by all their names, with their dashes.
func secretFlags(parser *kong.Kong) (names []string) {
	for _, node := range parser.Model.Leaves(false) {
		for _, flag := range node.Flags {
			if flag.Tag.Has("secret") {
				for _, name := range namesOf(flag) {
					names = append(names, "--"+name)
				}
			}
		}
	}
	return names
}
