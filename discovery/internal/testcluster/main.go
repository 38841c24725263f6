// Command testcluster is what the tests of discovery need of a Kubernetes cluster: etcd and the API server, and helm to render a
// chart with. It is a module of its own, because what these bring along is no business of the gateway.
//
//	testcluster etcd --data DIR            prints the URL for clients when it serves
//	testcluster apiserver FLAGS...         the API server's own command
//	testcluster helm template CHART ...    prints the manifests, see --help
//
// The servers end when their standard input does: whoever starts them keeps a pipe open, and however that process dies, nothing
// outlives it.
package main

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("say what: etcd, apiserver or helm"))
	}
	// A group of its own: what is sent to that of the tests must not end etcd before it has cleaned up. An error changes nothing else.
	_ = syscall.Setpgid(0, 0)
	command := os.Args[1]
	os.Args = os.Args[1:]
	switch command {
	case "etcd":
		fail(etcd(os.Args[1:]))
	case "apiserver":
		go endWithInput("")
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	case "helm":
		fail(helm(os.Args[1:]))
	default:
		fail(fmt.Errorf("there is no %q: say etcd, apiserver or helm", command))
	}
}

// endWithInput ends the process at the end of its standard input: that is when the process that started it closed the pipe, or died.
// A folder that has a name goes with it.
func endWithInput(folder string) {
	_, _ = io.Copy(io.Discard, os.Stdin)
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(0)
}

// fail ends the process: with a sentence and 1 if there is an error.
func fail(err error) {
	if err == nil {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "testcluster:", err)
	os.Exit(1)
}
