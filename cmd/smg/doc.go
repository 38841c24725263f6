// Command smg is a gateway in front of LLM inference engines.
//
// This package is its command line: it fills a [server.Config] from flags, the environment and a file, checks it and hands it
// to the server. It holds no behaviour of the gateway.
//
// # What happens
//
// main hands the arguments to run. Version flags win over everything else; then cli.go adds the command that was left out, and
// kong parses. Kong asks mapper.go for values (lists take several words, numbers may be negative) and source.go for what the
// command line does not say: first the environment, then the file of --config, which file.go reads. A value that is nowhere is
// the default in the tag of its field.
//
// serve has two faces. If its command line names a model, a backend or an engine command, serve.go takes it before kong does:
// serve_split.go tells smg's flags from those for the engines, serve_flags.go has the former, and package launch does the work.
// Otherwise serve is launch.
//
// # How it ends
//
// exit.go has the codes: 0 is success, 1 a configuration or a gateway that failed, 2 a command line that cannot be understood.
// Errors go to standard error, one line each, as "error: ...".
//
// # Where a flag is added
//
// A flag is a field of a struct in package server, with its name, default and help in the tag. Nothing changes here unless the
// field has a type that mapper.go does not know.
package main
