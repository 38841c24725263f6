package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"gopkg.in/yaml.v3"
)

var errNotObject = errors.New("must be one JSON object")

// jsonDocument reads a JSON object into the tree of a YAML document, so that what follows knows one kind. YAML's parser would
// read most JSON as it is, but not all of its escapes. The order of keys and the digits of numbers are kept.
func jsonDocument(text []byte) (*yaml.Node, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if first, err := decoder.Token(); err != nil || first != json.Delim('{') {
		return nil, errNotObject
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		line := 1 + bytes.Count(text[:decoder.InputOffset()], []byte("\n"))
		var decoded any
		if err := decoder.Decode(&decoded); err != nil {
			return nil, err
		}
		value := &yaml.Node{}
		if err := value.Encode(decoded); err != nil {
			return nil, err
		}
		name, _ := key.(string) // the decoder takes nothing else for a key
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name, Line: line}, value)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotObject
	}
	return root, nil
}
