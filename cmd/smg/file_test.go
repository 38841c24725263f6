package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var testKeys = map[string]bool{"port": true, "log-json": true, "worker-urls": true, "model-alias": true, "log-dir": true, "config": false}

// cli.md, section 4
func TestConfigurationFile(t *testing.T) {
	one := func(text, from string) given { return given{texts: []string{text}, from: from} }
	tests := []struct {
		name, path, text string
		want             map[string]given
		err              string
	}{
		{name: "an empty file sets nothing", path: "f.yaml"},
		{name: "a file of comments sets nothing", path: "f.yaml", text: "# port: 1\n"},
		{name: "a null document sets nothing", path: "f.yaml", text: "---\nnull\n"},
		{
			name: "keys may have dashes or underscores", path: "f.yaml", text: "log-json: yes\nmodel_alias: x=a\n",
			want: map[string]given{"log-json": one("yes", "f.yaml:1"), "model-alias": one("x=a", "f.yaml:2")},
		},
		{
			name: "digits stay as they were written", path: "f.yaml", text: "port: 010\n",
			want: map[string]given{"port": one("010", "f.yaml:1")},
		},
		{
			name: "a list is a list", path: "f.yaml", text: "worker_urls:\n  - http://a\n  - http://b\n",
			want: map[string]given{"worker-urls": {texts: []string{"http://a", "http://b"}, list: true, from: "f.yaml:1"}},
		},
		{
			name: "an empty list is given", path: "f.yaml", text: "worker_urls: []\n",
			want: map[string]given{"worker-urls": {texts: []string{}, list: true, from: "f.yaml:1"}},
		},
		{
			name: "a map is a list of pairs", path: "f.yaml", text: "model_alias: {y: b, x: a}\n",
			want: map[string]given{"model-alias": {texts: []string{"y=b", "x=a"}, list: true, from: "f.yaml:1"}},
		},
		{name: "a key without a value is not given", path: "f.yaml", text: "port:\nlog_dir: ~\n", want: map[string]given{}},
		{
			name: "an alias stands for its anchor", path: "f.yml", text: "log_dir: &d /a\nport: *d\n",
			want: map[string]given{"log-dir": one("/a", "f.yml:1"), "port": one("/a", "f.yml:2")},
		},
		{
			name: "JSON has escapes of its own", path: "f.json", text: "{\n\t\"worker_urls\": [\"http:\\/\\/a\"],\n\t\"port\": 1e3, \"log-json\": true, \"log-dir\": null\n}\n",
			want: map[string]given{
				"worker-urls": {texts: []string{"http://a"}, list: true, from: "f.json:2"},
				"port":        one("1e3", "f.json:3"), "log-json": one("true", "f.json:3"),
			},
		},
		{name: "every wrong key is reported", path: "f.yaml", text: "prot: 1\nport: 1\nconfig: x\n", err: "f.yaml:1: unknown key 'prot'\nf.yaml:3: unknown key 'config'"},
		{name: "a flag is set once", path: "f.yaml", text: "log_json: 1\nlog-json: 1\n", err: "f.yaml:2: 'log-json' is set twice"},
		{name: "a flag is set once in JSON", path: "f.json", text: "{\"port\":1,\n\"port\":null}", err: "f.json:2: 'port' is set twice"},
		{name: "a list holds no lists", path: "f.yaml", text: "worker_urls: [[a]]\n", err: "f.yaml:1: 'worker_urls': must be a value, a list of values or a map of values"},
		{name: "a list holds no gaps", path: "f.yaml", text: "worker_urls: [a, ~]\n", err: "f.yaml:1: 'worker_urls': must be a value, a list of values or a map of values"},
		{name: "an alias of the list it is in does not loop", path: "f.yaml", text: "worker_urls: &l [*l]\n", err: "f.yaml:1: 'worker_urls': must be a value, a list of values or a map of values"},
		{name: "a document is a map", path: "f.yaml", text: "- port\n", err: "f.yaml:1: must be a map of flags"},
		{name: "there is one document", path: "f.yaml", text: "port: 1\n---\nport: 2\n", err: "f.yaml: must be one document"},
		{name: "a JSON file is an object", path: "f.json", text: "[]", err: "f.json: must be one JSON object"},
		{name: "a JSON file holds nothing else", path: "f.json", text: "{} {}", err: "f.json: must be one JSON object"},
		{name: "a JSON file is not YAML", path: "f.json", text: "port: 1\n", err: "f.json: must be one JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseFile(tt.path, []byte(tt.text), testKeys)
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func FuzzConfigurationFile(f *testing.F) {
	for _, text := range []string{
		"", "port: 1", "worker_urls: [a, b]", "model_alias: {x: a}", "a: &a [*a]", "? [a]\n: b", "<<: *x", "--- 1\n--- 2", "{}",
		`{"port": 1, "worker-urls": ["\/"]}`, `{"port":`, "worker_urls: !!binary aGk=", "\xff", "port: *p", "%YAML 1.1\n---\nport: 1",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, json bool) {
		path := "f.yaml"
		if json {
			path = "f.json"
		}
		values, err := parseFile(path, []byte(text), testKeys)
		if err != nil {
			return
		}
		for name, value := range values {
			if !testKeys[name] {
				t.Errorf("%q is not a flag", name)
			}
			if !value.list && len(value.texts) != 1 {
				t.Errorf("%s: a single value has %d texts", name, len(value.texts))
			}
		}
	})
}
