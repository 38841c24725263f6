package main

// otherwise are the opposites of flags by another name of theirs. Kong knows the opposites of the flags' first names alone.
var otherwise = map[string]string{"--no-worker-auto-recovery": "--no-remove-unhealthy-workers"}

// spelt is a command line with the opposites of flags as kong knows them. The words behind "--" are not smg's.
func spelt(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		if arg == "--" {
			copy(out[i:], args[i:])
			break
		}
		if out[i] = arg; otherwise[arg] != "" {
			out[i] = otherwise[arg]
		}
	}
	return out
}
