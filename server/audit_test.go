package server

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// audited are the lines of the audit log so far, without what every line has.
func audited(t *testing.T, log *lines) (records []map[string]string) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var all map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &all), line)
		if all["message"] != "control_plane_audit" {
			continue
		}
		require.Equal(t, "INFO", all["level"])
		require.Equal(t, "smg::audit", all["target"])
		record := map[string]string{}
		for _, name := range []string{"principal", "auth_method", "role", "method", "path", "outcome", "request_id", "details"} {
			text, there := all[name].(string)
			require.True(t, there, "%s in %s", name, line)
			record[name] = text
		}
		records = append(records, record)
	}
	return records
}

// said is a record's values in the order of the sheet.
func said(r map[string]string) string {
	return strings.Join([]string{r["principal"], r["auth_method"], r["role"], r["method"], r["path"], r["outcome"], r["details"]}, "|")
}

// workers.md, section 20: one line for each decision; and one for each change.
func TestAuditLog(t *testing.T) {
	w := newWorld(t)
	g := start(t, func(c *Config) {
		c.LogJSON = true
		w.settings()[8].set(c)
	})
	e := engine.Start(t, engine.Config{})
	spec := `{"url":"` + e.URL + `"}`
	ask := func(method, path, body, credential string) {
		g.do(t, method, path, body, append([]string{"X-Request-Id", "r-1"}, w.credentials[credential]...)...)
	}
	ask(http.MethodGet, "/workers", "", "nothing")
	ask(http.MethodGet, "/workers?x=1", "", "a wrong key")
	ask(http.MethodGet, "/workers", "", "user's key")
	ask(http.MethodGet, "/workers", "", "expired token")
	ask(http.MethodGet, "/workers", "", "admin's key")
	ask(http.MethodPost, "/workers", spec, "admin's token")
	ask(http.MethodPost, "/workers", "{", "admin's token")
	ask(http.MethodPost, "/explain", chat, "admin's key")
	ask(http.MethodPost, chatPath, chat, "API key") // no route for operators
	ask(http.MethodGet, "/health", "", "admin's key")
	want := []string{
		"anonymous|none|none|GET|/workers|denied|Missing or invalid Authorization header",
		"anonymous|none|none|GET|/workers|denied|Invalid authentication token",
		"ci|api_key|user|GET|/workers|denied|Admin role required for control plane access",
		"anonymous|none|none|GET|/workers|denied|Invalid JWT: it has expired",
		"ops|api_key|admin|GET|/workers|success|",
		"ada|jwt|admin|POST|/workers|success|",
		"ada|jwt|admin|POST|/workers|success|changed: answered 202",
		"ada|jwt|admin|POST|/workers|success|",
		"ops|api_key|admin|POST|/explain|success|",
	}
	var got []string
	for _, r := range audited(t, g.Log) {
		require.Equal(t, "r-1", r["request_id"])
		got = append(got, said(r))
	}
	require.Equal(t, want, got)
}

// Changes are on record where everybody may make them, too; nothing is where that is not wanted.
func TestAuditLogOfChangesAlone(t *testing.T) {
	for off, want := range map[bool][]string{
		false: {"anonymous|none|none|POST|/workers|success|changed: answered 202"}, true: nil,
	} {
		g := start(t, func(c *Config) { c.LogJSON, c.DisableAuditLogging = true, off })
		require.Equal(t, http.StatusAccepted, g.post(t, "/workers", `{"url":"`+engine.Start(t, engine.Config{}).URL+`"}`).StatusCode)
		require.Equal(t, http.StatusOK, g.get(t, "/workers").StatusCode)
		var got []string
		for _, r := range audited(t, g.Log) {
			got = append(got, said(r))
		}
		require.Equal(t, want, got)
	}
}

// workers.md, section 20: control characters are escaped, values cut at 1024.
func TestValuesOfTheAuditLog(t *testing.T) {
	tests := map[string]string{
		"plain":                           "plain",
		"two\nlines\r\t\x00\x1b[31m":      `two\u000alines\u000d\u0009\u0000\u001b[31m`,
		"a\u202eb\u2028c\u200bd":          `a\u202eb\u2028c\u200bd`,
		"größe 大":                         "größe 大",
		"\xff":                            "\ufffd",
		strings.Repeat("x", 1025):         strings.Repeat("x", 1024),
		strings.Repeat("x", 1023) + "é":   strings.Repeat("x", 1023),
		strings.Repeat("x", 1020) + "\n!": strings.Repeat("x", 1020),
	}
	for _, value := range slices.Sorted(maps.Keys(tests)) {
		require.Equal(t, tests[value], auditable(value))
	}
}

// A subject with line breaks in it is a name like any other.
func TestASubjectCannotForgeALine(t *testing.T) {
	w := newWorld(t)
	g := start(t, w.settings()[5].set)
	token := w.token(t, "ada\n2026-01-01T00:00:00Z INFO smg::audit: control_plane_audit principal=root", "admin", patience*100)
	require.Equal(t, http.StatusOK, g.do(t, http.MethodGet, "/workers", "", "Authorization", "Bearer "+token).StatusCode)
	found := 0
	for line := range strings.Lines(g.Log.String()) {
		if strings.Contains(line, "control_plane_audit") {
			found++
			require.Contains(t, line, `u000a2026`)
		}
	}
	require.Equal(t, 1, found)
}
