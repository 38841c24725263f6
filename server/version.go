package server

import "runtime/debug"

// Version is smg's semantic version. A release build may set it with the linker (-X).
var Version = "0.1.0"

// commit is the revision that the binary was built from, as far as the build knows it.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
