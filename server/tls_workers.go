package server

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"

	"github.com/smg-go/smg/workers"
)

// workerTLS is how connections to https workers are secured, whoever makes them; nil if no flag says anything about it. The error is a
// [*ConfigError].
func workerTLS(cfg *Config, log *slog.Logger) (workers.TLS, error) {
	if cfg.ClientCertPath == "" && len(cfg.CACertPaths) == 0 {
		return nil, nil
	}
	var shown *fromFiles[*tls.Certificate]
	var roots *fromFiles[*x509.CertPool]
	var err error
	if cfg.ClientCertPath != "" {
		shown, err = readFiles(log, keyPair, pemFile{"--client-cert-path", cfg.ClientCertPath}, pemFile{"--client-key-path", cfg.ClientKeyPath})
		if err != nil {
			return nil, err
		}
	}
	if len(cfg.CACertPaths) > 0 {
		files := make([]pemFile, len(cfg.CACertPaths))
		for i, path := range cfg.CACertPaths {
			files[i] = pemFile{"--ca-cert-paths", path}
		}
		if roots, err = readFiles(log, trusted, files...); err != nil {
			return nil, err
		}
	}
	return func() *tls.Config { return secured(shown, roots) }, nil
}

func secured(shown *fromFiles[*tls.Certificate], roots *fromFiles[*x509.CertPool]) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if roots != nil {
		c.RootCAs = roots.get()
	}
	if shown != nil {
		pair := shown.get() // shown whatever authorities the worker names: there is no other
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return c
}
