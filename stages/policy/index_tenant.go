package policy

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/smg-go/smg/workers"
)

// tenant is a worker in one tree. When the worker is removed the tenant is dead: from then on it counts for nothing, and what the
// nodes say of it is collected in the background.
type tenant struct {
	worker atomic.Pointer[workers.Worker] // its latest revision
	slot   int                            // of the worker
	id     uint32                         // in the nodes; used again once no node has it
	dead   atomic.Bool
	pins   atomic.Int32 // requests that are putting it on nodes

	mu      sync.Mutex
	units   int64 // of the nodes that have it
	entries int64 // how many these are
}

// pin is called before the tenant is put on nodes; false if it is dead. Who has pinned it calls unpin.
func (t *tenant) pin() bool {
	t.pins.Add(1)
	if t.dead.Load() {
		t.pins.Add(-1)
		return false
	}
	return true
}

func (t *tenant) unpin() { t.pins.Add(-1) }

// spent tells whether a dead tenant is on no node any more, and never will be.
func (t *tenant) spent() bool {
	if t.pins.Load() > 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.entries == 0
}

// credit counts what the tenant was put on or taken off.
func (t *tree) credit(who *tenant, units, entries int64) {
	who.mu.Lock()
	defer who.mu.Unlock()
	who.units += units
	who.entries += entries
	if !who.dead.Load() {
		t.total.Add(units)
	}
}

// tenancy is the tenants of a tree. Requests read it without a lock; it is changed with the lock of the index held.
type tenancy struct {
	live  sync.Map // *workers.Worker to *tenant
	alive atomic.Int32
	byID  atomic.Pointer[[]*tenant] // those that are dead as well; nil: nobody has that id
	freed []uint32                  // ids; the lock of the index is held
	dying []*tenant                 // the same
}

// of is the worker's tenant; nil if it has none.
func (y *tenancy) of(w *workers.Worker) *tenant {
	if who, ok := y.live.Load(w); ok {
		return who.(*tenant)
	}
	return nil
}

// resident is the live tenant with that id; nil if there is none.
func (y *tenancy) resident(id uint32) *tenant {
	if who := y.any(id); who != nil && !who.dead.Load() {
		return who
	}
	return nil
}

// any is the tenant with that id, dead or alive; nil if there is none.
func (y *tenancy) any(id uint32) *tenant {
	if byID := *y.byID.Load(); int(id) < len(byID) {
		return byID[id]
	}
	return nil
}

// enlist makes the worker a tenant.
func (y *tenancy) enlist(w *workers.Worker) *tenant {
	if known := y.of(w); known != nil {
		return known
	}
	who, byID := &tenant{slot: w.Slot()}, *y.byID.Load()
	who.worker.Store(w)
	if n := len(y.freed); n > 0 {
		who.id = y.freed[n-1]
		y.freed = y.freed[:n-1]
		byID = slices.Clone(byID)
		byID[who.id] = who
	} else {
		who.id = uint32(len(byID))
		byID = append(byID, who) // those who read the old list do not look behind its end
	}
	y.byID.Store(&byID)
	y.live.Store(w, who)
	y.alive.Add(1)
	return who
}

// dismiss makes the worker's tenant dead, if it has one: its units count for nothing at once.
func (t *tree) dismiss(w *workers.Worker) {
	who := t.tenants.of(w)
	if who == nil {
		return
	}
	t.tenants.live.Delete(w)
	t.tenants.alive.Add(-1)
	t.tenants.dying = append(t.tenants.dying, who)
	who.mu.Lock()
	defer who.mu.Unlock()
	who.dead.Store(true)
	t.total.Add(-who.units)
}

// bury gives the ids of dead tenants free that are on no node any more.
func (y *tenancy) bury() {
	byID := slices.Clone(*y.byID.Load())
	y.dying = slices.DeleteFunc(y.dying, func(who *tenant) bool {
		if !who.spent() {
			return false
		}
		byID[who.id] = nil
		y.freed = append(y.freed, who.id)
		return true
	})
	y.byID.Store(&byID)
}
