package discovery

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/workers"
)

var regularAlone = []workers.Type{workers.Regular}

// capture.md section 8: what a manifest may say.
func TestAManifestListsWorkers(t *testing.T) {
	const full = `{"url":"http://10.0.0.5:8000/","id":"a","worker_type":"prefill","bootstrap_port":9001,"model_id":"mm","kv_connector":"c","kv_role":"r","kv_engine_id":"e"}`
	tests := []struct{ name, text string }{
		{"JSON", `{"version":1,"workers":[` + full + `,{"url":"https://[::1]:1"}]}`},
		{"JSON with tabs, a byte order mark and a number written otherwise", "\xef\xbb\xbf\n{\n\t\"version\": 1.0,\n\t\"workers\": [" + full + `,{"url":"https://[::1]:1","id":null}]}`},
		{"YAML", "# ours\nversion: 1\nworkers:\n- url: http://10.0.0.5:8000\n  id: a\n  worker_type: prefill\n  bootstrap_port: 9001\n  model_id: mm\n  kv_connector: c\n  kv_role: r\n  kv_engine_id: e\n- {url: 'https://[::1]:1'}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := readManifest([]byte(tt.text), []workers.Type{workers.Regular, workers.Prefill})
			require.NoError(t, err)
			require.Len(t, all, 2)
			require.Equal(t, []string{"10.0.0.5:8000", "[::1]:1"}, []string{all[0].Address, all[1].Address})
			require.Equal(t, []string{"a", "https://[::1]:1"}, []string{all[0].Name, all[1].Name}, "the id is the URL unless given")
			s := all[0].Spec
			require.Equal(t, "http://10.0.0.5:8000", s.URL)
			require.Equal(t, workers.Prefill, s.WorkerType)
			require.EqualValues(t, 9001, *s.BootstrapPort)
			require.Equal(t, []string{"c", "r", "e", "mm"}, []string{s.KVConnector, s.KVRole, s.KVEngineID, s.Labels["served_model_name"]})
			require.Equal(t, workers.NewSpec("https://[::1]:1"), all[1].Spec)
			require.Regexp(t, "^[0-9a-f]{64}$", all[0].Owner)
		})
	}
	all, err := readManifest([]byte(`{"version":1,"workers":[]}`), regularAlone)
	require.NoError(t, err)
	require.Empty(t, all, "nobody is wanted: that is said, and not a mistake")
}

// capture.md section 8 and DECISIONS 46: a manifest that is wrong anywhere is refused as a whole, with the place.
func TestAManifestIsReadStrictly(t *testing.T) {
	worker := func(s string) string { return `{"version":1,"workers":[{"url":"http://a:1","id":"a"},` + s + `]}` }
	tests := []struct{ name, text, want string }{
		{"nothing", " \n", "it is empty"},
		{"no JSON", `{"version":1,`, "it is not valid JSON: unexpected end of JSON input"},
		{"no YAML", "version: 1\nworkers: [", "it is not valid YAML: line 2: did not find expected node content"},
		{"two documents", "version: 1\nworkers: []\n---\nversion: 1\n", "it has more than one document"},
		{"a list", `[]`, "it must be an object with 'version' and 'workers'"},
		{"a text", `hello`, "it must be an object with 'version' and 'workers'"},
		{"no version", `{"workers":[]}`, "'version' is missing"},
		{"no workers", `{"version":1}`, "'workers' is missing"},
		{"a version of the future", `{"version":2,"workers":[]}`, "'version' must be 1"},
		{"a version as text", `{"version":"1","workers":[]}`, "'version' must be 1"},
		{"a version with a fraction", `{"version":1.5,"workers":[]}`, "'version' must be 1"},
		{"workers that are no list", `{"version":1,"workers":{}}`, "'workers' must be a list"},
		{"workers that are nothing", `{"version":1,"workers":null}`, "'workers' must be a list"},
		{"an unknown name at the top", `{"version":1,"workers":[],"worker":[]}`, "unknown field 'worker'"},
		{"an unknown name in an entry", worker(`{"url":"http://b:1","weight":2,"adress":""}`), "workers[1]: unknown field 'adress'"},
		{"a name twice", `{"version":1,"workers":[{"url":"http://b:1","url":"http://c:1"}]}`, "the name 'url' comes twice in one object"},
		{"a name twice, in YAML", "version: 1\nversion: 1\nworkers: []\n", `it is not valid YAML: unmarshal errors:`},
		{"an entry that is a text", worker(`"http://b:1"`), "workers[1]: it must be an object"},
		{"no URL", worker(`{"id":"b"}`), "workers[1]: 'url' is required"},
		{"a URL without a scheme", worker(`{"url":"b:1"}`), "workers[1]: url 'b:1': URL must start with a lowercase http://, https://, grpc://, grpcs://, or ipc:// scheme"},
		{"an id that is a number", worker(`{"url":"http://b:1","id":7}`), "workers[1]: 'id' must be a string"},
		{"a port that is none", worker(`{"url":"http://b:1","bootstrap_port":70000}`), "workers[1]: 'bootstrap_port' must be a whole number from 1 to 65535"},
		{"a port as text", worker(`{"url":"http://b:1","bootstrap_port":"1"}`), "workers[1]: 'bootstrap_port' must be a whole number from 1 to 65535"},
		{"an unknown type", worker(`{"url":"http://b:1","worker_type":"Regular"}`), "workers[1]: worker_type 'Regular' is not one of regular, prefill, decode, encode"},
		{"a type that the mode does not use", worker(`{"url":"http://b:1","worker_type":"prefill"}`), "workers[1]: worker_type 'prefill' is not used in regular routing"},
		{"an id twice", worker(`{"url":"http://b:1","id":"a"}`), "workers[1]: duplicate id 'a'"},
		{"an endpoint twice", worker(`{"url":"https://a:1/","id":"b"}`), "workers[1]: 'b' and 'a' name the same endpoint a:1"},
		{"far too deep", `{"version":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,"workers":[]}`, "it is nested too deeply"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readManifest([]byte(tt.text), regularAlone)
			require.Error(t, err)
			text, _, _ := strings.Cut(err.Error(), "\n")
			require.Equal(t, tt.want, text)
		})
	}
}

// capture.md section 8: any change of an entry is another worker, and its form none.
func TestTheOwnerOfAnEntryIsAllThatItSays(t *testing.T) {
	owner := func(entry string) string {
		all, err := readManifest([]byte(`{"version":1,"workers":[`+entry+`]}`), regularAlone)
		require.NoError(t, err)
		return all[0].Owner
	}
	base := owner(`{"url":"http://a:1"}`)
	require.Equal(t, base, owner(`{"worker_type":"regular","id":"http://a:1", "url":"http://a:1/"}`))
	seen := map[string]bool{base: true}
	for _, other := range []string{
		`{"url":"http://a:2"}`, `{"url":"https://a:1"}`, `{"url":"http://a:1","id":"x"}`, `{"url":"http://a:1","model_id":"x"}`,
		`{"url":"http://a:1","bootstrap_port":1}`, `{"url":"http://a:1","kv_connector":"x"}`, `{"url":"http://a:1","kv_role":"x"}`, `{"url":"http://a:1","kv_engine_id":"x"}`,
	} {
		require.False(t, seen[owner(other)], other)
		seen[owner(other)] = true
	}
}

// capture.md section 8: whatever a file holds, it is refused or gives workers that can be registered one by one.
func FuzzManifest(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"workers":[{"url":"http://10.0.0.5:8000","id":"a","bootstrap_port":9001}]}`, "version: 1\nworkers:\n- url: http://a:1\n- url: grpc://b\n",
		`{"version":1,"workers":[{"url":"http://a:1@0"}]}`, "a: &a [*a]", "\xff\xfe", "{", "? x\n: y", "version: 1\nworkers: [{url: 2020-01-01}]", `{"version":1e0,"workers":[{"url":"ipc:///x"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := readManifest(data, regularAlone)
		if err != nil {
			return
		}
		addresses, ids := map[string]bool{}, map[string]bool{}
		for _, w := range all {
			_, err := workers.New(w.Spec, workers.DefaultSettings())
			require.NoError(t, err)
			require.False(t, addresses[w.Address] || ids[w.Key], "each address and each id once")
			addresses[w.Address], ids[w.Key] = true, true
		}
	})
}
