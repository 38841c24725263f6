package compose_test

import (
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

// service is what these tests read of one in compose.yaml.
type service struct {
	Image string
	Build *struct{ Context, Target string }

	Command     []string
	Ports       []string
	Volumes     []string
	Environment map[string]string
	DependsOn   []string      `yaml:"depends_on"`
	StopGrace   time.Duration `yaml:"stop_grace_period"`
}

// mounts are the files of the service's container that are files of ours.
func (s service) mounts(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, v := range s.Volumes {
		parts := strings.Split(v, ":")
		require.Len(t, parts, 3, v)
		require.Equal(t, "ro", parts[2], v)
		files[parts[1]] = parts[0]
	}
	return files
}

func services(t *testing.T) map[string]service {
	t.Helper()
	var file struct{ Services map[string]service }
	readYAML(t, "compose.yaml", &file)
	require.NotEmpty(t, file.Services)
	return file.Services
}

func readYAML(t *testing.T, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, to), name)
}

// build makes one of our programs as it is now.
func build(t *testing.T, name string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	out, err := exec.Command("go", "build", "-o", binary, "github.com/smg-go/smg/cmd/"+name).CombinedOutput()
	require.NoError(t, err, string(out))
	return binary
}

// settings is the configuration that smg has with a service's command line, by flag.
func settings(t *testing.T, smg string, s service) map[string]any {
	t.Helper()
	out, err := exec.Command(smg, append([]string{"config", "check"}, s.Command...)...).Output()
	require.NoError(t, err, "smg refuses %v", s.Command)
	found := map[string]any{}
	require.NoError(t, yaml.Unmarshal(out, found))
	return found
}

// What compose itself would say at the start: files that are missing, images that are not there, services that nobody wrote.
func TestServicesAreWhole(t *testing.T) {
	stages, _ := dockerfile(t)
	all := services(t)
	for name, s := range all {
		if s.Build == nil {
			require.Regexp(t, `:v?\d+\.\d+\.\d+$`, s.Image, "%s: an image that changes by itself", name)
		} else {
			require.FileExists(t, filepath.Join(s.Build.Context, "Dockerfile"), name)
			require.Contains(t, stages, s.Build.Target, name)
		}
		for inside, file := range s.mounts(t) {
			require.FileExists(t, file, name)
			require.Equal(t, filepath.Ext(inside), filepath.Ext(file), name)
		}
		for _, other := range s.DependsOn {
			require.Contains(t, all, other, name)
		}
		for _, p := range s.Ports {
			require.Regexp(t, `^127\.0\.0\.1:(\d+):\d+$`, p, "%s: nothing here asks for a password, so nothing is published beyond this machine", name)
		}
	}
}

// Every address in these files is a service on a port that its container listens on.
func TestAddressesAreThoseOfServices(t *testing.T) {
	smg, all := build(t, "smg"), services(t)
	gateway := settings(t, smg, all["smg"])
	listening := map[string][]string{
		"smg":        {number(gateway["port"]), number(gateway["prometheus-port"])},
		"prometheus": {"9090"}, "grafana": {"3000"}, // their own defaults
	}
	for name, s := range all {
		if s.Image == "smg-mockengine" {
			require.Contains(t, s.Command, "--host=0.0.0.0", "%s: its default is loopback, which other containers do not reach", name)
			listening[name] = []string{flagValue(s.Command, "--port")}
		}
		for _, p := range s.Ports {
			require.Contains(t, listening[name], p[strings.LastIndex(p, ":")+1:], name)
		}
	}
	require.Equal(t, "0.0.0.0", gateway["host"])
	require.Equal(t, "0.0.0.0", gateway["prometheus-host"])
	addresses := []string{}
	for _, u := range gateway["worker-urls"].([]any) {
		addresses = append(addresses, host(t, u.(string)))
	}
	require.Len(t, addresses, 2)
	addresses = append(append(addresses, scraped(t)...), host(t, datasource(t).URL))
	for _, a := range addresses {
		name, port, _ := strings.Cut(a, ":")
		require.Contains(t, listening[name], port, a)
	}
	require.Contains(t, scraped(t), "smg:"+number(gateway["prometheus-port"]))
	grace := time.Duration(gateway["shutdown-grace-period-secs"].(int)) * time.Second
	require.Greater(t, all["smg"].StopGrace, grace, "requests in flight would be cut")
}

func number(v any) string { return strconv.Itoa(v.(int)) }

func host(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u.Host
}

// flagValue is that of --flag=value.
func flagValue(command []string, flag string) string {
	for _, word := range command {
		if value, ok := strings.CutPrefix(word, flag+"="); ok {
			return value
		}
	}
	return ""
}

// scraped are the addresses that prometheus.yml names.
func scraped(t *testing.T) (targets []string) {
	t.Helper()
	var file struct {
		Jobs []struct {
			Static []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus.yml", &file)
	for _, j := range file.Jobs {
		for _, s := range j.Static {
			targets = append(targets, s.Targets...)
		}
	}
	require.NotEmpty(t, targets)
	return targets
}

// The command lines, with loopback in place of the services' names, make a system that serves.
func TestTheServicesServe(t *testing.T) {
	smg, mockengine, all := build(t, "smg"), build(t, "mockengine"), services(t)
	args := slices.Clone(all["smg"].Command)
	for name, s := range all {
		if s.Image != "smg-mockengine" {
			continue
		}
		engine := startEngine(t, exec.Command(mockengine, s.Command...))
		at := slices.Index(args, "http://"+name+":"+flagValue(s.Command, "--port"))
		require.GreaterOrEqual(t, at, 0, "smg does not know %s", name)
		args[at] = engine
	}
	port, metrics := freePort(t), freePort(t)
	args = append(args, "--host=127.0.0.1", "--port", strconv.Itoa(port), "--prometheus-host=127.0.0.1",
		"--prometheus-port", strconv.Itoa(metrics), "--shutdown-grace-period-secs=0")
	start(t, exec.Command(smg, args...))
	requireServes(t, port, metrics)
}

// Without a trial of Grafana: it finds the dashboard where the provider looks, and the data source under the name that it gives.
func TestGrafanaFindsTheDashboard(t *testing.T) {
	grafana := services(t)["grafana"]
	mounts := grafana.mounts(t)
	var file struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, mounts["/etc/grafana/provisioning/dashboards/smg.yaml"], &file)
	require.Len(t, file.Providers, 1)
	shown := grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
	require.Equal(t, file.Providers[0].Options.Path, path.Dir(shown))
	require.Equal(t, "../grafana/dashboard.json", mounts[shown])
	source := datasource(t)
	require.Equal(t, "prometheus", source.Type, "what the variable $datasource offers")
	require.True(t, source.IsDefault)
}

type source struct {
	Type, URL string
	IsDefault bool `yaml:"isDefault"`
}

func datasource(t *testing.T) source {
	t.Helper()
	var file struct{ Datasources []source }
	readYAML(t, services(t)["grafana"].mounts(t)["/etc/grafana/provisioning/datasources/smg.yaml"], &file)
	require.Len(t, file.Datasources, 1)
	return file.Datasources[0]
}

// promtool reads the files where the container has them.
func TestPromtoolAcceptsTheConfiguration(t *testing.T) {
	binary := os.Getenv("SMG_TEST_PROMETHEUS")
	if binary == "" {
		t.Skip("left out: prometheus.yml in promtool. Set SMG_TEST_PROMETHEUS to the binary of Prometheus, beside which promtool lies; " +
			"apt-get install prometheus brings /usr/bin/prometheus")
	}
	dir := t.TempDir()
	for inside, file := range services(t)["prometheus"].mounts(t) {
		require.Equal(t, "/etc/prometheus", path.Dir(inside))
		require.NoError(t, copyFile(file, filepath.Join(dir, path.Base(inside))))
	}
	out, err := exec.Command(filepath.Join(filepath.Dir(binary), "promtool"), "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, regexp.MustCompile(`SUCCESS: 1 rule files found`), string(out))
}
