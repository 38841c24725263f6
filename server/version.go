package server

import "runtime/debug"

// Version is smg's semantic version. A release build may set it with the linker (-X).
var Version = "0.1.0"

// Commit is the revision that the binary was built from. A build that does not see the repository, such as that of a container
// image, sets it with the linker (-X); if it is empty, what Go recorded counts.
var Commit string

// commit is the revision that the binary was built from, as far as the build knows it.
func commit() string {
	if Commit != "" {
		return Commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}
