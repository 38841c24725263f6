package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// limit bounds a command that hangs; it is long because the first one may compile everything.
const limit = 5 * time.Minute

// built is what all machines share: the programs, and where the readers find the checkout.
var built struct {
	scratch  string   // a folder for what is made
	checkout string   // where commands run: a copy of the checkout
	bin      string   // first in PATH: smg, mockengine, and what a page installs
	env      []string // of every command
	covers   bool     // the copy lies where the checkout is
}

// prepare makes what the machines share, calls run and cleans up.
func prepare(run func() int) (code int, err error) {
	if built.scratch, err = os.MkdirTemp("", "smg-walk-"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(built.scratch)) }()
	files, err := checkedOut(root)
	if err != nil {
		return 0, err
	}
	if pages, err = readPages(files); err != nil {
		return 0, err
	}
	place, err := filepath.Abs(root)
	if err != nil {
		return 0, err
	}
	built.checkout, built.bin = filepath.Join(built.scratch, "smg"), filepath.Join(built.scratch, "bin")
	if err := errors.Join(restore(files), os.Mkdir(built.bin, 0o755)); err != nil {
		return 0, err
	}
	if built.covers, err = cover(place, built.checkout); err != nil {
		return 0, err
	}
	if built.env, err = environment(); err != nil {
		return 0, err
	}
	if built.covers {
		built.checkout = place
	}
	snapshot = files
	return run(), nil
}

// snapshot is the checkout as it was when the walk began, by path.
var snapshot map[string]file

type file struct {
	mode fs.FileMode
	text []byte
}

// checkedOut reads what belongs to the checkout: what git lists, else everything that has no name of its own to be ignored. Because
// it reads every file, `go test` repeats the walk when any of them changes.
func checkedOut(top string) (map[string]file, error) {
	files := map[string]file{}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == ".git" || rel == "bin" || rel == ".cache" || d.Name() == "node_modules"): // as .gitignore has it
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone since it was listed
		}
		files[filepath.ToSlash(rel)] = file{mode: info.Mode(), text: text}
		return err
	})
	return files, err
}

// restore makes the copy what the checkout was.
func restore(files map[string]file) error {
	now := map[string]file{}
	if _, err := os.Stat(built.checkout); err == nil {
		if now, err = checkedOut(built.checkout); err != nil {
			return err
		}
	}
	for name := range now {
		if _, known := files[name]; !known {
			if err := os.Remove(filepath.Join(built.checkout, name)); err != nil {
				return err
			}
		}
	}
	for name, f := range files {
		if string(now[name].text) == string(f.text) && now[name].mode == f.mode {
			continue
		}
		at := filepath.Join(built.checkout, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, f.text, f.mode)); err != nil {
			return err
		}
	}
	return nil
}

// carefulCurl is curl as a careful reader takes it: an answer that is an error is a failure, and there is no progress meter.
const carefulCurl = `#!/usr/bin/env bash
PATH="${PATH#*:}"
if [[ " $* " =~ \ (-[a-zA-Z]*f[a-zA-Z]*|--fail[a-z-]*)\  ]]; then
    exec curl --silent --show-error "$@"
fi
exec curl --silent --show-error --fail-with-body "$@"
`

// environment is that of a user with a home of their own, Go's caches aside: the walk must not compile the world.
func environment() ([]string, error) {
	out, err := exec.Command("go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	settings := map[string]string{}
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, err
	}
	home := filepath.Join(built.scratch, "home")
	if err := errors.Join(os.Mkdir(home, 0o755), os.WriteFile(filepath.Join(built.bin, "curl"), []byte(carefulCurl), 0o755)); err != nil {
		return nil, err
	}
	settings["HOME"], settings["GOBIN"], settings["TMPDIR"] = home, built.bin, built.scratch
	settings["PATH"] = built.bin + string(os.PathListSeparator) + os.Getenv("PATH")
	settings["LC_ALL"], settings["NO_PROXY"], settings["no_proxy"] = "C.UTF-8", "*", "*"
	env := make([]string, 0, len(settings))
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	return env, nil
}

// machine is where one page is followed.
type machine struct {
	t       testing.TB
	prelude string // cd and export lines so far
	servers []*server
}

var (
	building     sync.Once // the programs are the same for every page
	buildFailure error
)

// newMachine gives a machine with a fresh checkout.
func newMachine(t testing.TB) *machine {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("left out: following the pages needs %s; CI installs it", tool)
		}
	}
	m := &machine{t: t}
	t.Cleanup(func() {
		for _, s := range m.servers {
			s.stop()
		}
	})
	if err := restore(snapshot); err != nil {
		t.Fatal(err)
	}
	building.Do(func() {
		out, err := m.run("go build -o " + built.bin + " ./cmd/smg ./cmd/mockengine")
		if err != nil {
			buildFailure = fmt.Errorf("the programs cannot be built: %w\n%s", err, out)
		}
	})
	if buildFailure != nil {
		t.Fatal(buildFailure)
	}
	return m
}

// run executes a command to its end and returns what it wrote to either output.
func (m *machine) run(command string) (output string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := m.command(ctx, command)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = fmt.Errorf("not over after %v", limit)
	}
	if word, _, _ := strings.Cut(command, " "); err == nil && (word == "export" || word == "cd") {
		m.prelude += command + "\n"
	}
	return string(out), err
}

// command is a shell in a group of its own, so that what it starts can be told to end, too.
func (m *machine) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", m.prelude+text)
	cmd.Dir, cmd.Env = built.checkout, built.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
