package docs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"
)

// patience is how long a server may take until it is ready or gone: long, since nothing is asserted about time.
const patience = time.Minute

// server is a command that does not end by itself.
type server struct {
	text  string
	ports []string // on loopback, which it listens on when it is ready; nil until it says so
	probe string   // a URL that answers 200 when it is ready; "" if listening is all
	cmd   *exec.Cmd
	log   string // the file that it writes to
	ended chan struct{}
	err   error // how it ended, once ended is closed
}

// program is what a command starts, go run included, and the words after its name. Settings of the environment before it are skipped.
func program(text string) (name string, args []string) {
	w := words(text)
	for len(w) > 0 && strings.Contains(w[0], "=") && !strings.HasPrefix(w[0], "-") {
		w = w[1:]
	}
	if len(w) >= 3 && w[0] == "go" && w[1] == "run" {
		w = w[2:]
	}
	if len(w) == 0 {
		return "", nil
	}
	return path.Base(w[0]), w[1:]
}

// serves tells whether a command starts a server.
func serves(text string) bool {
	name, args := program(text)
	if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return false
	}
	switch name {
	case "smg":
		return len(args) == 0 || strings.HasPrefix(args[0], "-") || slices.Contains([]string{"launch", "start", "serve", "demo"}, args[0])
	case "mockengine":
		return true
	}
	return strings.Contains(text, "go run ./examples/")
}

// start runs a server until it is ready. One of the same page that has its port is stopped first, as the reader would.
func (m *machine) start(text string) (*server, error) {
	s := &server{text: text, ended: make(chan struct{}), log: filepath.Join(m.t.TempDir(), "log")}
	if err := m.expect(s); err != nil {
		return nil, err
	}
	for _, port := range s.ports {
		m.free(port)
		if listens(port) {
			return nil, fmt.Errorf("port %s is taken on this machine, and the page needs it", port)
		}
	}
	if err := m.launch(s); err != nil {
		return nil, err
	}
	m.servers = append(m.servers, s)
	return s, s.await()
}

// expect says what a server will listen on and how it tells that it is ready. Of a gateway smg itself is asked, so that it does not
// matter whether the command line, the environment or a file says it.
func (m *machine) expect(s *server) error {
	name, args := program(s.text)
	switch {
	case name == "smg" && len(args) > 0 && args[0] == "demo":
		port := after(args, "--port", "30000")
		s.ports, s.probe = []string{port}, "http://127.0.0.1:"+port+"/readiness"
		return nil
	case name == "smg":
		return m.expectGateway(s, args)
	case name == "mockengine":
		first, err := strconv.Atoi(after(args, "--port", "0"))
		if err != nil || first == 0 {
			return err
		}
		count, err := strconv.Atoi(after(args, "--count", "1"))
		for i := range count {
			s.ports = append(s.ports, strconv.Itoa(first+i))
		}
		return err
	}
	return nil
}

func (m *machine) expectGateway(s *server, args []string) error {
	before, _, _ := strings.Cut(s.text, "smg") // settings of the environment
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	if strings.HasPrefix(strings.TrimSpace(before), "go run") {
		before = ""
	}
	out, err := m.run(before + "smg config check " + quoted(args) + " 2>/dev/null")
	if err != nil {
		return fmt.Errorf("smg config check with its flags: %w\n%s", err, out)
	}
	var cfg struct {
		Port    string   `yaml:"port"`
		Metrics string   `yaml:"prometheus-port"`
		Probes  string   `yaml:"health-check-port"`
		Workers []string `yaml:"worker-urls"`
	}
	if err := yaml.Unmarshal([]byte(out), &cfg); err != nil {
		return err
	}
	s.ports, s.probe = []string{cfg.Port}, "http://127.0.0.1:"+cfg.Port+"/liveness"
	for _, port := range []string{cfg.Metrics, cfg.Probes} {
		if port != "" && port != "0" {
			s.ports = append(s.ports, port)
		}
	}
	if len(cfg.Workers) > 0 {
		s.probe = "http://127.0.0.1:" + cfg.Port + "/readiness"
	}
	return m.engines(cfg.Workers)
}

// engines are what the reader is supposed to have: a mock engine for every worker that nobody has started.
func (m *machine) engines(workers []string) error {
	for _, worker := range workers {
		u, err := url.Parse(worker)
		if err != nil {
			return err
		}
		if u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" {
			return fmt.Errorf("%s is not on this machine; give the name a place in hosts, in pages_test.go", worker)
		}
		if listens(u.Port()) {
			continue
		}
		if _, err := m.start("mockengine --port " + u.Port()); err != nil {
			return err
		}
	}
	return nil
}

// after is the value of a flag, or else the standard one.
func after(args []string, flag, standard string) string {
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, flag+"="); ok {
			return value
		}
		if a == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return standard
}

func quoted(args []string) string {
	var b strings.Builder
	for _, a := range args {
		b.WriteString("'" + strings.ReplaceAll(a, "'", `'\''`) + "' ")
	}
	return b.String()
}

func listens(port string) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", port), patience)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// free stops the server that has a port, if it is one of this page.
func (m *machine) free(port string) {
	for i, s := range m.servers {
		if slices.Contains(s.ports, port) {
			s.stop()
			m.servers = slices.Delete(m.servers, i, i+1)
			return
		}
	}
}

func (m *machine) launch(s *server) error {
	out, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = m.command(context.Background(), strings.TrimRight(s.text, " &"))
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.ended)
	}()
	return nil
}

// printedURL is how a server that chose its port itself says where it is.
var printedURL = regexp.MustCompile(`http://(?:127\.0\.0\.1|localhost):(\d+)`)

// await returns when the server is ready.
func (s *server) await() error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case <-s.ended:
			return fmt.Errorf("it has ended instead of serving: %v\n%s", s.err, s.output())
		default:
		}
		if s.ports == nil {
			for _, found := range printedURL.FindAllStringSubmatch(s.output(), -1) {
				s.ports = append(s.ports, found[1])
			}
			continue
		}
		if s.ready() {
			return nil
		}
	}
	return fmt.Errorf("not ready after %v\n%s", patience, s.output())
}

func (s *server) ready() bool {
	if s.probe == "" {
		return !slices.ContainsFunc(s.ports, func(port string) bool { return !listens(port) })
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	answer, err := client.Get(s.probe)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func (s *server) output() string {
	text, err := os.ReadFile(s.log)
	return errors.Join(err, errors.New(string(text))).Error()
}

// stop presses Ctrl-C, again if that does not end it, as an impatient reader does, and in the end kills what is left.
func (s *server) stop() {
	for _, wait := range []time.Duration{time.Second, patience} {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-s.ended:
			return
		case <-time.After(wait):
		}
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.ended
}
