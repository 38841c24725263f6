package policy

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// holders are the workers that a node's prefix was sent to, each with the stamp of the last time. Nearly all nodes have one: it is
// kept in the node. Stamps are set without a lock; who holds is changed under the node's.
type holders struct {
	first atomic.Uint32 // tenant; 0: nobody
	stamp atomic.Uint64 // of the first
	more  atomic.Pointer[[]holder]
}

// holder is one of several; the list is ordered by tenant and never changes, stamps aside.
type holder struct {
	stamp  atomic.Uint64
	tenant uint32
}

// stampOf is where a tenant's stamp is; nil if it does not hold the node.
func (h *holders) stampOf(tenant uint32) *atomic.Uint64 {
	if h.first.Load() == tenant {
		return &h.stamp
	}
	if more := h.more.Load(); more != nil {
		if i := placeOf(*more, tenant); i < len(*more) && (*more)[i].tenant == tenant {
			return &(*more)[i].stamp
		}
	}
	return nil
}

// placeOf is where in the list a tenant is or would be.
func placeOf(list []holder, tenant uint32) int {
	low, high := 0, len(list)
	for low < high {
		if middle := (low + high) / 2; list[middle].tenant < tenant {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// count is how many hold the node, tenants that are dead included.
func (h *holders) count() int {
	n := 0
	if h.first.Load() != 0 {
		n = 1
	}
	if more := h.more.Load(); more != nil {
		n += len(*more)
	}
	return n
}

// hold puts a tenant that is not there yet on the node, and returns the bytes that it takes.
func (h *holders) hold(tenant uint32, stamp uint64) int64 {
	if h.first.Load() == 0 {
		h.stamp.Store(stamp)
		h.first.Store(tenant)
		return 0
	}
	var was []holder
	if more := h.more.Load(); more != nil {
		was = *more
	}
	at := placeOf(was, tenant)
	now := make([]holder, len(was)+1)
	copyHolders(now, was[:at])
	now[at].tenant = tenant
	now[at].stamp.Store(stamp)
	copyHolders(now[at+1:], was[at:])
	h.more.Store(&now)
	return listBytes(now) - listBytes(was)
}

// release takes a tenant off the node, and returns the bytes that it takes, which is negative.
func (h *holders) release(tenant uint32) int64 {
	more := h.more.Load()
	if h.first.Load() == tenant {
		if more == nil {
			h.first.Store(0)
			return 0
		}
		last := &(*more)[len(*more)-1] // for a moment it is there twice, never missing
		tenant = last.tenant
		h.stamp.Store(last.stamp.Load())
		h.first.Store(tenant)
	}
	was := *more
	if len(was) == 1 {
		h.more.Store(nil)
		return -listBytes(was)
	}
	at := placeOf(was, tenant)
	now := make([]holder, len(was)-1)
	copyHolders(now, was[:at])
	copyHolders(now[at:], was[at+1:])
	h.more.Store(&now)
	return listBytes(now) - listBytes(was)
}

// inherit makes the holders those of another node, and returns the bytes that they take.
func (h *holders) inherit(from *holders) int64 {
	h.stamp.Store(from.stamp.Load())
	h.first.Store(from.first.Load())
	more := from.more.Load()
	if more == nil {
		return 0
	}
	now := make([]holder, len(*more))
	copyHolders(now, *more)
	h.more.Store(&now)
	return listBytes(now)
}

// same tells whether these are the others' tenants, with the same stamps.
func (h *holders) same(as *holders) bool {
	same := h.count() == as.count()
	h.each(func(tenant uint32, stamp uint64) {
		other := as.stampOf(tenant)
		same = same && other != nil && other.Load() == stamp
	})
	return same
}

// each calls f with every tenant and its stamp.
func (h *holders) each(f func(tenant uint32, stamp uint64)) {
	if first := h.first.Load(); first != 0 {
		f(first, h.stamp.Load())
	}
	if more := h.more.Load(); more != nil {
		for i := range *more {
			f((*more)[i].tenant, (*more)[i].stamp.Load())
		}
	}
}

func copyHolders(to, from []holder) {
	for i := range from {
		to[i].tenant = from[i].tenant
		to[i].stamp.Store(from[i].stamp.Load())
	}
}

// moreBytes is what the holders take beyond the node itself.
func (h *holders) moreBytes() int64 {
	if more := h.more.Load(); more != nil {
		return listBytes(*more)
	}
	return 0
}

const listHeaderBytes = int64(unsafe.Sizeof([]holder{}))

func listBytes(list []holder) int64 {
	if len(list) == 0 {
		return 0
	}
	return listHeaderBytes + allocated(int64(len(list))*int64(unsafe.Sizeof(holder{})))
}

func bits64(n int64) int { return bits.Len64(uint64(n)) }
