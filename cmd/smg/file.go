package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// errUnreadable is a configuration file that is not there, or may not be read.
var errUnreadable = errors.New("cannot read the configuration")

// knownKeys are the names of the flags that a file may set: those of launch, but the one that names the file.
func knownKeys(app *kong.Application) map[string]bool {
	known := map[string]bool{}
	for _, node := range app.Children {
		if node.Name != "launch" {
			continue
		}
		for _, flag := range node.Flags {
			for _, name := range namesOf(flag) {
				known[name] = flag.Name != "config"
			}
		}
	}
	return known
}

// readFile reads a configuration file.
func readFile(path string, known map[string]bool) (map[string]given, error) {
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
		return nil, fmt.Errorf("--config: %s: the name must end in .yaml, .yml or .json", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return parseFile(path, text, known)
}

// parseFile takes a document apart that maps names of flags to values. Values stay texts, as they were written: what they mean
// is the business of the flag's mapper. It reports every entry that is wrong.
func parseFile(path string, text []byte, known map[string]bool) (map[string]given, error) {
	parse := yamlDocument
	if filepath.Ext(path) == ".json" {
		parse = jsonDocument
	}
	root, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if root == nil {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: must be a map of flags", path, root.Line)
	}
	f := file{path: path, known: known, seen: map[string]bool{}, values: map[string]given{}}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		if err := f.entry(root.Content[i], resolved(root.Content[i+1])); err != nil {
			errs = append(errs, err)
		}
	}
	return f.values, errors.Join(errs...)
}

// file is a configuration file while it is being read.
type file struct {
	path        string
	known, seen map[string]bool // names of flags: all that may be set, and those that were
	values      map[string]given
}

// entry takes one key and its value. A key may be written with "-" or "_"; one without a value is left at its default.
func (f *file) entry(key, node *yaml.Node) error {
	at := fmt.Sprintf("%s:%d", f.path, key.Line)
	name := strings.ReplaceAll(key.Value, "_", "-")
	if key.Kind != yaml.ScalarNode || !f.known[name] {
		return fmt.Errorf("%s: unknown key '%s'", at, key.Value)
	}
	if f.seen[name] {
		return fmt.Errorf("%s: '%s' is set twice", at, key.Value)
	}
	f.seen[name] = true
	if node.Tag == "!!null" {
		return nil
	}
	value, err := fileValue(node)
	if err != nil {
		return fmt.Errorf("%s: '%s': %w", at, key.Value, err)
	}
	value.from = at
	f.values[name] = value
	return nil
}

// yamlDocument returns the root of the only document in text, nil if there is nothing in it.
func yamlDocument(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("must be one document")
	}
	if root := resolved(doc.Content[0]); root.Tag != "!!null" {
		return root, nil
	}
	return nil, nil
}

// fileValue reads a scalar, a list of scalars, or a map of scalars, which is short for a list of key=value.
func fileValue(node *yaml.Node) (given, error) {
	if node.Kind == yaml.ScalarNode {
		return given{texts: []string{node.Value}}, nil
	}
	value := given{list: true, texts: []string{}}
	for i, element := range node.Content {
		element = resolved(element)
		if element.Kind != yaml.ScalarNode || element.Tag == "!!null" {
			return given{}, errors.New("must be a value, a list of values or a map of values")
		}
		if node.Kind == yaml.MappingNode && i%2 == 1 {
			value.texts[len(value.texts)-1] += "=" + element.Value
			continue
		}
		value.texts = append(value.texts, element.Value)
	}
	return value, nil
}

// resolved follows a YAML alias to what it stands for.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		return node.Alias
	}
	return node
}
