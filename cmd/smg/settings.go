package main

import (
	"github.com/alecthomas/kong"

	"github.com/smg-go/smg/server"
)

// settings are the flags of every command that has to do with a configuration.
type settings struct {
	server.Config
	File string `name:"config" placeholder:"FILE" help:"Read the configuration from this file (.yaml, .yml or .json): keys are names of flags. A flag wins over its environment variable, and that over the file. The variable of --some-flag is SMG_FLAG_SOME_FLAG."`
}

// BeforeResolve is called by kong when the command line has been read, and adds the other sources.
func (s *settings) BeforeResolve(ctx *kong.Context) error {
	src := &sources{}
	if path := s.path(ctx); path != "" {
		file, err := readFile(path, knownKeys(ctx.Model))
		if err != nil {
			return err
		}
		src.file = file
	}
	ctx.AddResolver(src)
	return nil
}

// path is the configuration file that the flag or its variable names. It is needed before kong has applied either.
func (s *settings) path(ctx *kong.Context) string {
	for _, flag := range ctx.Flags() {
		if flag.Name != "config" {
			continue
		}
		if path, ok := ctx.FlagValue(flag).(string); ok && path != "" {
			return path
		}
		_, path := environment(flag)
		return path
	}
	return ""
}

// valid returns all that is wrong with the configuration as one error.
func (s *settings) valid() error {
	if found := s.Validate(); len(found) > 0 {
		return invalid(found)
	}
	return nil
}
