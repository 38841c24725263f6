package server

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// pemFile is a file that a flag names.
type pemFile struct{ flag, path string }

// lookEvery is how often files are looked at, at most. A handshake costs a hundred times as much as a look.
const lookEvery = time.Second

// fromFiles is something made of files, and made anew once they have changed, so that certificates are replaced without a restart.
// The files are looked at when somebody asks, which is at handshakes: who makes no connection needs no new certificate. What is
// read, not when it was written, tells whether something has changed: files that are mounted are switched under their names.
type fromFiles[T any] struct {
	files []pemFile
	parse func(contents [][]byte) (T, error)
	log   *slog.Logger
	every time.Duration // lookEvery; 0 looks each time

	current atomic.Pointer[T]
	looked  atomic.Int64 // when, in nanoseconds since began

	mu        sync.Mutex // of who looks
	seen      [][]byte   // what current was made of, or what has been found wrong
	complaint string     // the last one, which is not repeated
}

// readFiles makes it. The error is a [*ConfigError] that names the flag.
func readFiles[T any](log *slog.Logger, parse func([][]byte) (T, error), files ...pemFile) (*fromFiles[T], error) {
	f := &fromFiles[T]{files: files, parse: parse, log: log, every: lookEvery}
	if at, err := f.read(); err != nil {
		return nil, &ConfigError{[]Violation{{Flag: at.flag, Value: at.path, Reason: err.Error()}}}
	}
	f.looked.Store(sinceBegan(time.Now()))
	return f, nil
}

// get is what the files say, or what they said before something went wrong with them.
func (f *fromFiles[T]) get() T {
	now, last := sinceBegan(time.Now()), f.looked.Load()
	if now-last >= int64(f.every) && f.looked.CompareAndSwap(last, now) {
		f.look()
	}
	return *f.current.Load()
}

func (f *fromFiles[T]) look() {
	at, err := f.read()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.complaint = ""
	case err.Error() != f.complaint:
		f.complaint = err.Error()
		f.log.Warn("a changed file cannot be used, the old one stays in use", "flag", at.flag, "path", at.path, "error", err)
	}
}

// read reads the files and makes of them what they say, if they say something new. The error is about the returned file.
func (f *fromFiles[T]) read() (pemFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	contents := make([][]byte, len(f.files))
	for i, file := range f.files {
		var err error
		if contents[i], err = os.ReadFile(file.path); err != nil {
			return file, err
		}
	}
	before := f.current.Load()
	if before != nil && f.complaint == "" && slices.EqualFunc(contents, f.seen, bytes.Equal) {
		return pemFile{}, nil
	}
	made, err := f.parse(contents)
	if err != nil {
		return f.blame(err), err
	}
	if before != nil {
		f.log.Info("changed files are in use", "flag", f.files[0].flag, "path", f.files[0].path)
	}
	f.seen = contents
	f.current.Store(&made)
	return pemFile{}, nil
}

// inFile is an error about the file at an index.
type inFile struct {
	index int
	error
}

func (f *fromFiles[T]) blame(err error) pemFile {
	if in, ok := errors.AsType[inFile](err); ok {
		return f.files[in.index]
	}
	return f.files[0]
}

// keyPair makes a certificate with its chain of one file, and the key of another.
func keyPair(contents [][]byte) (*tls.Certificate, error) {
	for i, content := range contents {
		if len(bytes.TrimSpace(content)) == 0 {
			return nil, inFile{i, errors.New("the file is empty")}
		}
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// trusted are the system's authorities and those of the files.
func trusted(contents [][]byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a system without any
	}
	for i, content := range contents {
		if err := addTrusted(pool, content); err != nil {
			return nil, inFile{i, err}
		}
	}
	return pool, nil
}

func addTrusted(pool *x509.CertPool, content []byte) error {
	added := 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("certificate %d: %w", added+1, err)
		}
		pool.AddCert(cert)
		added++
	}
	if added == 0 {
		return errors.New("holds no certificate in PEM form")
	}
	return nil
}
