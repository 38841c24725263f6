package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// http-dataplane.md, section 12.3: what a start would find wrong with the files, without a start.
func TestCheckFilesOpensWhatTheFlagsName(t *testing.T) {
	a := newAuthority(t)
	good, other := a.issue(t, "good"), a.issue(t, "other")
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	require.NoError(t, os.WriteFile(garbage, []byte("nothing"), 0o600))
	tests := []struct {
		name  string
		tls   TLSConfig
		flags []string // that are complained of
	}{
		{"nothing is named", TLSConfig{}, nil},
		{"all is well", TLSConfig{
			TLSCertPath: good.Cert, TLSKeyPath: good.Key, ClientCertPath: good.Cert, ClientKeyPath: good.Key, CACertPaths: []string{a.CA},
		}, nil},
		{"a certificate that is not there", TLSConfig{TLSCertPath: garbage + "x", TLSKeyPath: good.Key}, []string{"--tls-cert-path"}},
		{"a key that is none", TLSConfig{ClientCertPath: good.Cert, ClientKeyPath: garbage}, []string{"--client-cert-path"}},
		{"the key of another certificate", TLSConfig{TLSCertPath: good.Cert, TLSKeyPath: other.Key}, []string{"--tls-cert-path"}},
		{"an authority that is none", TLSConfig{CACertPaths: []string{a.CA, garbage}}, []string{"--ca-cert-paths"}},
		{"each side is told of", TLSConfig{TLSCertPath: garbage, TLSKeyPath: garbage, CACertPaths: []string{garbage}}, []string{"--tls-cert-path", "--ca-cert-paths"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Config{TLSConfig: tt.tls}
			var flags []string
			for _, v := range c.CheckFiles() {
				flags = append(flags, v.Flag)
				require.NotEmpty(t, v.Reason)
			}
			require.Equal(t, tt.flags, flags)
		})
	}
}
