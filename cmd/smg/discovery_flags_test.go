package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/server"
)

// discovery.md, section 4; cli.md, section 2.2
func TestSelectorsAreWrittenInManyWays(t *testing.T) {
	tests := []struct {
		name string
		args []string
	}{
		{"words", []string{"--selector", "app=x", "role=y"}},
		{"a repeated flag", []string{"--selector", "app=x", "--selector", "role=y"}},
		{"one text with a blank", []string{"--selector=app=x role=y"}},
		{"one word with a blank", []string{"--selector", "app=x role=y"}},
		{"one word with a comma", []string{"--selector", "app=x,role=y"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := launched(t, append(tt.args, "--service-discovery")...)
			require.Equal(t, map[string]string{"app": "x", "role": "y"}, map[string]string(cfg.Pods().Selectors.Worker))
		})
	}
}

// discovery.md, section 2; the issue asks for several namespaces
func TestFlagsOfDiscoveryAreReadWhereverTheyStand(t *testing.T) {
	words := strings.Fields("--service-discovery --selector app= --service-discovery-namespace a,b --service-discovery-namespace c " +
		"--service-discovery-port 8000 --model-id-from label:model --service-discovery-resync-secs 5 --kv-connector-annotation acme.com/kv")
	want := server.Default()
	want.ServiceDiscovery, want.PodSelector, want.PodNamespaces, want.PodPort = true, []string{"app="}, []string{"a", "b", "c"}, 8000
	want.PodModel, want.ResyncInterval, want.KVConnectorAnnotation = "label:model", 5, "acme.com/kv"
	require.Equal(t, want, launched(t, words...))

	for name, value := range map[string]string{
		"SERVICE_DISCOVERY": "true", "SELECTOR": "app=", "SERVICE_DISCOVERY_NAMESPACE": "a,b c", "SERVICE_DISCOVERY_PORT": "8000",
		"MODEL_ID_FROM": "label:model", "SERVICE_DISCOVERY_RESYNC_SECS": "5", "KV_CONNECTOR_ANNOTATION": "acme.com/kv",
	} {
		t.Setenv("SMG_FLAG_"+name, value)
	}
	require.Equal(t, want, launched(t))
}

// discovery.md, section 3; DECISIONS 46 and 60
func TestDiscoveryTurnsSwitchesOn(t *testing.T) {
	tests := []struct {
		args         string
		igw, removes bool
	}{
		{"--worker-urls http://a", false, false},
		{"--worker-urls http://a --remove-unhealthy-workers", false, true},
		{"--service-discovery --selector app=x", true, true},
		{"--service-discovery --selector app=x --remove-unhealthy-workers=false", true, false},
		{"--discovery-provider kubernetes --selector app=x", true, true},
		{"--discovery-provider file --discovery-file workers.yaml", true, true},
	}
	for _, tt := range tests {
		cfg := launched(t, strings.Fields(tt.args)...)
		require.Equal(t, []bool{tt.igw, tt.removes}, []bool{cfg.IGW(), cfg.RemovesUnhealthy(cfg.Discovers())}, tt.args)
	}
}
