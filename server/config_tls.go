package server

// TLSConfig says how clients are served over TLS, and what https workers are shown and believed. The files are PEM; they are read at
// the start, and again when they have changed.
type TLSConfig struct {
	TLSCertPath    string   `name:"tls-cert-path" placeholder:"FILE" help:"Certificate, with the chain behind it, for serving HTTPS (and HTTP/2); needs --tls-key-path. Unset: HTTP without encryption."`
	TLSKeyPath     string   `name:"tls-key-path" placeholder:"FILE" help:"Private key of --tls-cert-path."`
	ClientCertPath string   `name:"client-cert-path" placeholder:"FILE" help:"Certificate, with the chain behind it, that https workers are shown if they ask for one; needs --client-key-path."`
	ClientKeyPath  string   `name:"client-key-path" placeholder:"FILE" help:"Private key of --client-cert-path."`
	CACertPaths    []string `name:"ca-cert-paths" aliases:"ca-cert-path" type:"multi" placeholder:"FILE ..." help:"Certificates of authorities that https workers may have theirs from, beside those that the system trusts."`
}

func (c *TLSConfig) check(found *violations) {
	together(found, "--tls-cert-path", c.TLSCertPath, "--tls-key-path", c.TLSKeyPath)
	together(found, "--client-cert-path", c.ClientCertPath, "--client-key-path", c.ClientKeyPath)
	for _, path := range c.CACertPaths {
		if path == "" {
			found.add("--ca-cert-paths", path, "must name a file")
		}
	}
}

// together checks that there is a certificate and its key, or neither.
func together(found *violations, certFlag, cert, keyFlag, key string) {
	switch {
	case key == "" && cert != "":
		found.add(certFlag, cert, "needs "+keyFlag+" as well")
	case cert == "" && key != "":
		found.add(keyFlag, key, "needs "+certFlag+" as well")
	}
}
