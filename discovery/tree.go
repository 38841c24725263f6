package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"gopkg.in/yaml.v3"
)

// treeOf reads a document, JSON if it begins as that, else YAML, into objects (map[string]any), lists ([]any), strings, numbers,
// booleans and nil. A name that comes twice in an object is an error: nobody could tell which one was meant.
func treeOf(data []byte) (any, error) {
	text := bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	switch {
	case len(text) == 0:
		return nil, errors.New("it is empty")
	case text[0] == '{' || text[0] == '[':
		return jsonTree(text)
	}
	return yamlTree(text)
}

func jsonTree(text []byte) (any, error) {
	if !json.Valid(text) {
		var value any
		return nil, fmt.Errorf("it is not valid JSON: %w", json.Unmarshal(text, &value))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return jsonValue(d, 0)
}

const deepest = 32 // levels of a document; a manifest has three

// jsonValue reads one value of a text that is known to be valid.
func jsonValue(d *json.Decoder, depth int) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, err
	case depth > deepest:
		return nil, errors.New("it is nested too deeply")
	case token == json.Delim('{'):
		return jsonObject(d, depth)
	case token == json.Delim('['):
		return jsonList(d, depth)
	}
	return token, nil
}

func jsonObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("the name '%s' comes twice in one object", name)
		}
		if object[name], err = jsonValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token() // the brace
	return object, err
}

func jsonList(d *json.Decoder, depth int) (any, error) {
	list := []any{}
	for d.More() {
		value, err := jsonValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token() // the bracket
	return list, err
}

func yamlTree(text []byte) (any, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var document any
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return document, nil
}

// wholeNumber is a number of a tree; ok is false if it is none, or has a fraction.
func wholeNumber(v any) (n int64, ok bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, true
		}
		f, err := v.Float64()
		return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	}
	return 0, false
}
