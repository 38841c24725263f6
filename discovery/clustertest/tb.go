package clustertest

// TB is what this package needs of a *testing.T. A program that is no test, such as a benchmark, brings one of its own: Fatal and
// Skipf do not return, and what Cleanup is given is called at the end, last one first.
type TB interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}
