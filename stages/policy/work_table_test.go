package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// entries counts what is in a table.
func (t *pageTable) entries() (n int) {
	for i := range t.shards {
		for _, e := range t.shards[i].slots {
			if e != 0 {
				n++
			}
		}
	}
	return n
}

// freePages counts the pages that are made and not in use.
func (ix *workIndex) freePages(t testing.TB) (n uint32) {
	before := uint32(0)
	for number := ix.free; number != 0; before, number = number, ix.page(number).parent {
		require.EqualValues(t, before, ix.page(number).stamp)
		n++
	}
	return n
}

// A table is a map: whatever comes and goes, in whatever order, with hashes that crowd at the two ends of small tables.
func TestAPageTableIsAMap(t *testing.T) {
	for name, hash := range map[string]func(r *rand.Rand) uint64{
		"hashes like those of prompts": (*rand.Rand).Uint64,
		"few that differ":              func(r *rand.Rand) uint64 { return r.Uint64N(300) },
		"all of one home":              func(r *rand.Rand) uint64 { return r.Uint64N(60)<<32 | 7 },
		"around the end":               func(r *rand.Rand) uint64 { return r.Uint64N(20)<<32 | (0xfffffffc+r.Uint64N(8))&0xffffffff },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 7))
			ix, should := newWorkIndex(newIndexMemory(0), 16), map[uint64]uint32{}
			var in []uint64
			for range 20_000 {
				h := hash(r)
				require.Equal(t, should[h], ix.lookUp(h))
				if should[h] == 0 && r.IntN(5) > 0 {
					should[h] = ix.add(h, 0) // without a parent it is in the table
					in = append(in, h)
				}
				if len(in) > 200 || len(in) > 0 && r.IntN(3) == 0 {
					i := r.IntN(len(in))
					ix.release(should[in[i]])
					delete(should, in[i])
					in[i] = in[len(in)-1]
					in = in[:len(in)-1]
				}
			}
			for h, number := range should {
				require.Equal(t, number, ix.lookUp(h))
			}
			require.Equal(t, len(should), ix.table.entries())
		})
	}
}

// What a table takes is within what pages are counted with, also right after it has grown.
func TestAPageTableTakesNoMoreThanIsCounted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	var table pageTable
	for n := range uint32(1 << 20) {
		table.put(r.Uint64(), n+1)
		if n%pagesOfChunk != 0 || n < 1<<14 { // below that the smallest tables weigh more, some KiB in all
			continue
		}
		bytes := 0
		for i := range table.shards {
			bytes += 8 * len(table.shards[i].slots)
		}
		require.LessOrEqual(t, bytes, int(n+1)*bytesOfEntry, "%d pages", n+1)
	}
}

// A page is found behind the one before it if it stands there, else in the table.
func TestAPageIsFoundWhereverItStands(t *testing.T) {
	ix := newWorkIndex(newIndexMemory(0), 16)
	add := func(hash uint64, parent uint32) uint32 {
		number := ix.add(hash, parent)
		require.True(t, ix.attach(ix.page(number), 0, 1))
		return number
	}
	first := add(11, 0)
	next, fork := add(12, first), add(13, first)
	require.True(t, follows(next, first))
	require.False(t, follows(fork, first))
	require.Equal(t, []uint32{next, fork}, []uint32{ix.behind(first, 12), ix.behind(first, 13)})
	require.Zero(t, ix.lookUp(12), "it needs no entry")
	ix.detach(next, 0)
	require.Equal(t, []uint32{0, fork}, []uint32{ix.behind(first, 12), ix.behind(first, 13)})
	require.Equal(t, 2, ix.table.entries())
}
