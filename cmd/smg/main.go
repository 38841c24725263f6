package main

import (
	"io"
	"os"
)

func main() {
	os.Exit(smg(os.Args[1:], os.Stdout, os.Stderr))
}

// smg runs the program with these arguments, its own name left out, and returns the exit code.
func smg(args []string, stdout, stderr io.Writer) int {
	if text, ok := versionFlag(args); ok {
		_, err := io.WriteString(stdout, text)
		return report(stderr, err)
	}
	c := &cli{stdin: os.Stdin, stdout: stdout, stderr: stderr}
	return report(stderr, c.run(args))
}
