//go:build unix

package forward

import (
	"syscall"
	"testing"
	"time"
)

// reportCPU makes a benchmark report the processor time of the whole process, server included: the figure that survives a
// machine with other work to do. Call it before the loop, and what it returns after it.
func reportCPU(b *testing.B) (report func()) {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	return func() { b.ReportMetric(float64((used()-start).Nanoseconds())/float64(b.N), "cpu-ns/op") }
}
