package discovery

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// CheckCredentials says whether there is what a client of the API server can be made of, in the order of
// [KubernetesSettings]: the kubeconfig at this path if there is one, else $KUBECONFIG, else the service account of the pod, else
// ~/.kube/config. It contacts nothing: an API server that is not there, or refuses, is no error of it.
func CheckCredentials(kubeconfig string) error {
	_, err := newClient(kubeconfig)
	return err
}

// quiet keeps the log of the client's library, which is not ours, off standard error: all that matters comes back as an error.
var quiet = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(slog.DiscardHandler)) })

// loadCredentials finds where the API server is and how to speak to it; source says in words where that was found. Token files are
// read again by the client when they change.
func loadCredentials(kubeconfig string) (config *rest.Config, source string, err error) {
	quiet()
	if kubeconfig != "" {
		return fromFiles("kubeconfig", kubeconfig)
	}
	if list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); list != "" {
		return fromFiles("$KUBECONFIG", filepath.SplitList(list)...)
	}
	config, err = rest.InClusterConfig()
	if err == nil {
		return config, "the service account of this pod", nil
	}
	if !errors.Is(err, rest.ErrNotInCluster) {
		return nil, "", fmt.Errorf("the service account of this pod cannot be used: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, "", errors.New("no credentials: $KUBECONFIG is not set, this is no pod of a cluster, and there is no home directory")
	}
	path := filepath.Join(home, ".kube", "config")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("no credentials: $KUBECONFIG is not set, this is no pod of a cluster, and there is no %s", path)
	}
	return fromFiles("kubeconfig", path)
}

// fromFiles merges kubeconfig files, of which some may be missing but not all.
func fromFiles(what string, paths ...string) (*rest.Config, string, error) {
	source := what + " " + filepath.Join(paths...)
	if len(paths) > 1 {
		source = what + " (" + fmt.Sprint(paths) + ")"
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: paths}
	merged, err := rules.Load()
	if err != nil {
		return nil, "", fmt.Errorf("%s cannot be read: %w", source, err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*merged, &clientcmd.ConfigOverrides{}).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, "", fmt.Errorf("%s is not there, or names no cluster", source)
	case err != nil:
		return nil, "", fmt.Errorf("%s cannot be used: %w", source, err)
	}
	return config, source, nil
}
