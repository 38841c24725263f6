package docs

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages are the texts by path.
var pages map[string]string

// readPages picks the pages out of the checkout.
func readPages(files map[string]file) (map[string]string, error) {
	found := map[string]string{}
	for name, f := range files {
		for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "examples/*/README.md"} {
			if is, err := path.Match(pattern, name); err != nil {
				return nil, err
			} else if is {
				found[name] = string(f.text)
			}
		}
	}
	return found, nil
}

// hosts are names that stand for the reader's own machines, and where mock engines play them.
var hosts = strings.NewReplacer("http://gpu1:8000", "http://127.0.0.1:8000", "http://gpu2:8000", "http://127.0.0.1:8001")

// failure is what is wrong with a page.
type failure struct {
	page string
	line int
	what string
}

func (f failure) String() string { return fmt.Sprintf("%s:%d: %s", f.page, f.line, f.what) }

// TestPages follows every page. A command fails if it ends with an error, unless the page shows that error; if it shows something
// else than the page; and if it is a server that does not serve.
func TestPages(t *testing.T) {
	for _, name := range sorted(pages) {
		t.Run(name, func(t *testing.T) {
			for _, f := range follow(t, name, pages[name]) {
				t.Error(f)
			}
		})
	}
}

// follow runs the commands of a page until one fails: what comes after builds on it.
func follow(t testing.TB, page, text string) (failures []failure) {
	commands, complaints := commandsOf(text)
	for _, c := range complaints {
		line, what := 0, c
		if at, rest, ok := strings.Cut(c, ": "); ok {
			_, _ = fmt.Sscan(at, &line)
			what = rest
		}
		failures = append(failures, failure{page, line, what})
	}
	var m *machine
	for _, c := range commands {
		c.text = hosts.Replace(c.text)
		if entry, standIn := leftOut(c.text); entry != nil {
			t.Logf("%s:%d: not run: %s: %s; %s", page, c.line, c.text, entry.reason, entry.instead)
			if standIn == "" {
				continue
			}
			c.text = standIn
		}
		if m == nil {
			m = newMachine(t)
		}
		if err := m.do(c); err != nil {
			return append(failures, failure{page, c.line, fmt.Sprintf("%s: %v", c.text, err)})
		}
	}
	return failures
}

// do runs one command and compares what it shows.
func (m *machine) do(c command) error {
	if serves(c.text) {
		return m.serve(c)
	}
	output, err := m.run(c.text)
	meant := slices.ContainsFunc(c.shown, func(line string) bool { return strings.Contains(line, "error:") })
	switch {
	case err != nil && !meant:
		return fmt.Errorf("%w\n%s", err, output)
	case err == nil && meant:
		return fmt.Errorf("it succeeds, and the page shows an error\n%s", output)
	case c.shown != nil && !shows(c.shown, output):
		return fmt.Errorf("it does not show what the page shows, but\n%s", output)
	}
	return nil
}

// serve starts a server, compares what it has shown so far, and does what it tells its reader to do.
func (m *machine) serve(c command) error {
	s, err := m.start(c.text)
	if err != nil {
		return err
	}
	if c.shown != nil && !shows(append(c.shown, "..."), s.output()) {
		return fmt.Errorf("it does not show what the page shows, but\n%s", s.output())
	}
	for _, told := range tells(s.output()) {
		if output, err := m.run(told); err != nil || strings.TrimSpace(output) == "" {
			return fmt.Errorf("it says to type\n%s\nwhich gives: %v\n%s", told, err, output)
		}
	}
	return nil
}

// advice is a command in the output of a server, continuation lines included.
var advice = regexp.MustCompile(`(?m)^ +(curl (?:.*\\\n)*.*)$`)

// tells are the commands that a server tells its reader to type.
func tells(output string) (commands []string) {
	for _, found := range advice.FindAllStringSubmatch(output, -1) {
		commands = append(commands, found[1])
	}
	return commands
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
