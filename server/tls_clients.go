package server

import (
	"crypto/tls"
	"log/slog"
)

// clientTLS is how clients are served over TLS; nil if they are not. Clients are not asked for certificates. The error is a
// [*ConfigError].
func clientTLS(cfg *Config, log *slog.Logger) (*tls.Config, error) {
	if cfg.TLSCertPath == "" {
		return nil, nil
	}
	pair, err := readFiles(log, keyPair, pemFile{"--tls-cert-path", cfg.TLSCertPath}, pemFile{"--tls-key-path", cfg.TLSKeyPath})
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.get(), nil },
	}, nil
}
