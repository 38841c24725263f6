package policy

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/smg-go/smg/pipeline"
)

// prose is a text of so many bytes that begins with a number of its own.
func prose(n int, number uint64) string {
	const line = "The quick brown fox jumps over the lazy dog, and the lazy dog does not care at all. "
	head := fmt.Sprintf("%016x ", number)
	return (head + strings.Repeat(line, n/len(line)+1))[:n]
}

// BenchmarkIndexMatchKnown looks a prompt up that its worker was sent before, and records it: 64 conversations on 8 workers.
func BenchmarkIndexMatchKnown(b *testing.B) {
	for _, kib := range []int{1, 32} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			r := newRig(b, 8, Settings{})
			prompts := make([]pipeline.RoutingPrompt, 64)
			for i := range prompts {
				prompts[i] = textPrompt("You are a helpful assistant. " + prose(kib<<10, uint64(i)))
				r.put(prompts[i], i%8)
			}
			b.ReportAllocs()
			began := cpuTime()
			i := 0
			for b.Loop() {
				r.put(prompts[i%64], i%8)
				i++
			}
			perKiB(b, kib, began)
		})
	}
}

// perKiB reports the time, and the processor time, which on a busy machine is the one that says something.
func perKiB(b *testing.B, kib int, began time.Duration) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*kib), "ns/KiB")
	b.ReportMetric(float64((cpuTime()-began).Nanoseconds())/float64(b.N*kib), "cpu-ns/KiB")
}

// cpuTime is what the process has used so far, the collector's work included.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkIndexMatchNew records prompts that nobody has sent before, all with the same system prompt, in an index that is as large
// as it may become. What the background spends on evicting older ones is reported apart.
func BenchmarkIndexMatchNew(b *testing.B) {
	for _, kib := range []int{1, 32} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			n := newcomers{rig: newRig(b, 8, Settings{IndexMemory: 64 << 20}), text: []byte("You are a helpful assistant. " + prose(kib<<10, 0))}
			for range 128 << 10 / kib { // until it is full
				n.next()
			}
			n.evicting, n.passed = 0, 0
			b.ReportAllocs()
			began := cpuTime()
			for b.Loop() {
				n.next()
			}
			b.ReportMetric(float64((b.Elapsed()-n.passed).Nanoseconds())/float64(b.N*kib), "ns/KiB")
			b.ReportMetric(float64((cpuTime()-began-n.evicting).Nanoseconds())/float64(b.N*kib), "cpu-ns/KiB")
			b.ReportMetric(float64(n.evicting.Nanoseconds())/float64(b.N*kib), "evict-cpu-ns/KiB")
		})
	}
}

// newcomers are prompts that were never sent before.
type newcomers struct {
	*rig
	text             []byte
	sent             uint64
	evicting, passed time.Duration // processor time and time of the evictions
}

func (n *newcomers) next() {
	hex.Encode(n.text[29:45], binary.BigEndian.AppendUint64(nil, n.sent*0x9e3779b97f4a7c15))
	n.put(textPrompt(unsafe.String(&n.text[0], len(n.text))), int(n.sent%8)) // the index keeps nothing of it
	n.sent++
	if n.memory.tight() {
		began, start := cpuTime(), time.Now()
		n.sweep()
		n.evicting += cpuTime() - began
		n.passed += time.Since(start)
	}
}

// BenchmarkIndexParallel compares one index for all cores with an index for each of them, which share nothing: the ratio of what
// they get done in the same time. Nine of ten prompts are known, all of them have one system prompt.
func BenchmarkIndexParallel(b *testing.B) {
	for _, kib := range []int{1, 32} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			cores := runtime.GOMAXPROCS(0)
			var shared, apart time.Duration
			for b.Loop() {
				one := newRig(b, 8, Settings{})
				own := make([]*rig, cores)
				for i := range own {
					own[i] = newRig(b, 8, Settings{})
				}
				shared += inParallel(cores, kib, func(int) *rig { return one })
				apart += inParallel(cores, kib, func(i int) *rig { return own[i] })
			}
			b.ReportMetric(apart.Seconds()/shared.Seconds(), "share-of-apart")
		})
	}
}

func inParallel(cores, kib int, of func(core int) *rig) time.Duration {
	prompts := make([][]pipeline.RoutingPrompt, cores)
	for core := range prompts {
		r := of(core)
		for i := range 64 {
			p := textPrompt("You are a helpful assistant. " + prose(kib<<10, uint64(core<<32|i)))
			prompts[core] = append(prompts[core], p)
			r.put(p, i%8)
		}
	}
	start := time.Now()
	var all sync.WaitGroup
	for core := range cores {
		all.Go(func() {
			r := of(core)
			for i := range 40_000 / kib {
				p := prompts[core][i%64]
				if i%10 == 0 {
					p = textPrompt(prose(64, uint64(core<<32|i)) + p.Text)
				}
				r.put(p, i%8)
			}
		})
	}
	all.Wait()
	return time.Since(start)
}

// BenchmarkIndexMemory records prompts that share nothing, of one block of 16 tokens (64 characters) each and of many.
func BenchmarkIndexMemory(b *testing.B) {
	for _, blocks := range []int{1, 16, 512} {
		b.Run(fmt.Sprintf("%dblocks", blocks), func(b *testing.B) {
			for b.Loop() {
				r := newRig(b, 8, Settings{})
				before := heap()
				const all = 200_000
				for i := range all / blocks {
					r.put(textPrompt(scattered(blocks*64, uint64(i))), i%8)
				}
				b.ReportMetric(float64(heap()-before)/all, "B/block")
				b.ReportMetric(float64(r.memory.used.Load())/float64(heap()-before), "counted/heap")
				runtime.KeepAlive(r)
			}
		})
	}
}

// scattered is prose that differs from its first character on.
func scattered(n int, number uint64) string {
	number *= 0x9e3779b97f4a7c15
	return prose(n, number)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
