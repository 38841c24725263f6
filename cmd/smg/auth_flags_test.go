package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cli.md, sections 2.2 and 4: lists of keys are split at commas and line ends, not at blanks, which names have.
func TestListsOfKeys(t *testing.T) {
	const two = "ops:Ops Team:admin:ka"
	require.Equal(t, []string{two, "ci:CI:user:ku"}, launched(t, "--control-plane-api-keys", two, "ci:CI:user:ku", "--port", "1").ControlPlaneAPIKeys)
	require.Equal(t, []string{two, "ci:CI:user:ku"}, launched(t, "--control-plane-api-keys="+two, "--control-plane-api-keys", "ci:CI:user:ku").ControlPlaneAPIKeys)
	require.Equal(t, []string{"a:k,1"}, launched(t, "--tenant-api-key", "a:k,1").TenantAPIKeys, "a word of the command line is one key")
	for _, flag := range []string{"--tenant-api-key", "--api-key", "--control-plane-api-keys"} { // a variable that is empty is no reason to be open
		var stdout, stderr bytes.Buffer
		require.Equal(t, 1, smg([]string{"config", "check", flag, ""}, &stdout, &stderr))
		require.Contains(t, stderr.String(), "invalid "+flag+": '***': ")
	}

	t.Setenv("CONTROL_PLANE_API_KEYS", two+"\nci:CI:user:ku, x:X:user:kx,")
	t.Setenv("SMG_FLAG_TENANT_API_KEY", "a:t1,b:t2")
	t.Setenv("SMG_FLAG_API_KEY", "k")
	t.Setenv("JWT_ISSUER", "https://idp.example")
	t.Setenv("JWT_AUDIENCE", "smg")
	t.Setenv("JWT_JWKS_URI", "https://idp.example/keys")
	t.Setenv("SMG_FLAG_JWT_ROLE_MAPPING", "Platform Team=admin,dev=user")
	cfg := launched(t)
	require.Equal(t, []string{two, "ci:CI:user:ku", "x:X:user:kx"}, cfg.ControlPlaneAPIKeys)
	require.Equal(t, []string{"a:t1", "b:t2"}, cfg.TenantAPIKeys)
	require.Equal(t, []string{"Platform Team=admin", "dev=user"}, cfg.JWTRoleMapping)
	require.Equal(t, []*string{new("k"), new("https://idp.example"), new("smg"), new("https://idp.example/keys")},
		[]*string{cfg.APIKey, cfg.JWTIssuer, cfg.JWTAudience, cfg.JWKSURI})
	require.Empty(t, cfg.Validate())
}

// cli.md, section 5.12: secrets never appear in the banner, in error text or in the output of config check.
func TestKeysAreNotPrinted(t *testing.T) {
	const key = "sk-5f21c8"
	file := filepath.Join(t.TempDir(), "smg.yaml")
	require.NoError(t, os.WriteFile(file, []byte("api-key: "+key+"1\ntenant-api-key: ['a:"+key+"2']\ncontrol-plane-api-keys: ['o:O:admin:"+key+"3']\n"), 0o600))
	for name, tt := range map[string]struct {
		args []string
		exit int
	}{
		"a fine configuration": {[]string{"config", "check", "--config", file}, 0},
		"flags":                {[]string{"config", "check", "--api-key", key, "--tenant-api-key", "a:" + key + "2", "--control-plane-api-keys", "o:O:admin:" + key + "3"}, 0},
		"keys without a name":  {[]string{"config", "check", "--api-key", key + " ", "--tenant-api-key", key, "--control-plane-api-keys", key, "o:O:root:" + key}, 1},
		"the same keys twice":  {[]string{"config", "check", "--api-key", key, "--tenant-api-key", "a:" + key, "--control-plane-api-keys", "o:O:admin:" + key}, 1},
		"a key behind one":     {[]string{"config", "check", "--tenant-api-key=a:" + key + "1", "b:" + key}, 2},
		"a key too many":       {[]string{"config", "check", "--api-key", key, key}, 2},
		"pipelines":            {[]string{"pipelines", "--config", file}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, tt.exit, smg(tt.args, &stdout, &stderr), stderr.String())
			require.NotContains(t, stdout.String()+stderr.String(), key)
			if name == "a fine configuration" {
				require.Equal(t, 3, strings.Count(stdout.String(), "'***'"))
			}
		})
	}
}

// cli.md, section 8.4: the key of the engines is the gateway's too, so that the two agree.
func TestServeSharesTheKeyOfTheEngines(t *testing.T) {
	for name, tt := range map[string]struct {
		args    []string
		want    string // "": none
		engines string
	}{
		"a key for the engines":      {[]string{"--api-key", "k1"}, "k1", "--api-key k1"},
		"written with =":             {[]string{"--api-key=k1"}, "k1", "--api-key=k1"},
		"behind --":                  {[]string{"--", "--api-key", "k1"}, "k1", "--api-key k1"},
		"an empty one is none":       {[]string{"--", "--api-key", ""}, "", "--api-key "},
		"a flag behind it is no key": {[]string{"--", "--api-key", "--x"}, "", "--api-key --x"},
		"a key of the gateway's own": {[]string{"--router-api-key", "k2", "--api-key", "k1"}, "k2", "--api-key k1"},
		"no key at all":              {[]string{"--x", "1"}, "", "--x 1"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, engines := served(t, tt.args...)
			require.Equal(t, []string{tt.engines}, engines)
			if tt.want == "" {
				require.Nil(t, cfg.APIKey)
				return
			}
			require.Equal(t, tt.want, *cfg.APIKey)
		})
	}
}
