package policy

// pageTable finds the numbers of pages by their hashes. An index that is full takes as many pages in as it lets go, all the time: a
// map of Go marks the places of those that went, and searches behind the marks. Here an entry that goes makes room at once.
//
// It is many small tables, each with linear probing, so that growing never takes long. The hashes are random, as [workPrompt] makes
// them.
type pageTable struct {
	shards [1 << shardBits]tableShard
}

const (
	shardBits = 8
	// bytesOfEntry is what a page takes in the table at most: right after growing, 3 of 8 slots are in use.
	bytesOfEntry = 22
)

// tableShard is one of the small tables.
type tableShard struct {
	slots []tableEntry // a power of two, at most three quarters in use
	used  int
}

// tableEntry is the lower half of a hash and the number of a page, from 1; 0 is an empty slot. Where an entry belongs can be told
// from itself, so growing does not look at the pages.
type tableEntry uint64

func newEntry(hash uint64, number uint32) tableEntry { return tableEntry(hash<<32 | uint64(number)) }

func (e tableEntry) number() uint32     { return uint32(e) }
func (e tableEntry) home() uint32       { return uint32(e >> 32) }
func (e tableEntry) isOf(h uint64) bool { return uint32(e>>32) == uint32(h) }

func (t *pageTable) shard(hash uint64) *tableShard { return &t.shards[hash>>(64-shardBits)] }

// lookUp is the number of the page with a hash, 0 if there is none. The index's lock is held.
func (ix *workIndex) lookUp(hash uint64) uint32 {
	s := ix.table.shard(hash)
	if s.used == 0 {
		return 0
	}
	for i := uint32(hash); ; i++ {
		e := s.slots[i&s.mask()]
		if e == 0 || e.isOf(hash) && ix.page(e.number()).hash == hash {
			return e.number()
		}
	}
}

// put adds a page whose hash is not in the table.
func (t *pageTable) put(hash uint64, number uint32) {
	s := t.shard(hash)
	if s.used >= len(s.slots)/4*3 {
		s.grow()
	}
	s.insert(newEntry(hash, number))
	s.used++
}

// remove takes a page out that is in the table.
func (t *pageTable) remove(hash uint64, number uint32) {
	s := t.shard(hash)
	i := uint32(hash)
	for e := newEntry(hash, number); s.slots[i&s.mask()] != e; i++ {
	}
	s.close(i)
	s.used--
}

func (s *tableShard) mask() uint32 { return uint32(len(s.slots) - 1) }

func (s *tableShard) insert(e tableEntry) {
	i := e.home()
	for ; s.slots[i&s.mask()] != 0; i++ {
	}
	s.slots[i&s.mask()] = e
}

func (s *tableShard) grow() {
	was := s.slots
	s.slots = make([]tableEntry, max(8, 2*len(was)))
	for _, e := range was {
		if e != 0 {
			s.insert(e)
		}
	}
}

// close empties a slot, and moves up those behind it that would not be found beyond a gap.
func (s *tableShard) close(gap uint32) {
	mask := s.mask()
	for i := gap + 1; ; i++ {
		e := s.slots[i&mask]
		if e == 0 {
			break
		}
		if (i-e.home())&mask >= (i-gap)&mask {
			s.slots[gap&mask] = e
			gap = i
		}
	}
	s.slots[gap&mask] = 0
}
