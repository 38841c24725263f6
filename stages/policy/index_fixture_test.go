package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// rig is an index, and the workers that prompts are recorded for.
type rig struct {
	*prefixIndex
	t       testing.TB
	workers []*workers.Worker
}

func newRig(t testing.TB, n int, s Settings) *rig {
	_, all := fleet(t, n)
	return &rig{newPrefixIndex(s), t, all}
}

func textPrompt(text string) pipeline.RoutingPrompt { return pipeline.RoutingPrompt{Text: text} }

// sequence is n token ids that begin at from.
func sequence(from, n int) pipeline.RoutingPrompt {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32(from + i)
	}
	return pipeline.RoutingPrompt{Tokens: ids}
}

// put records a prompt for a worker.
func (r *rig) put(p pipeline.RoutingPrompt, w int) receipt {
	v := r.look("m", &p)
	defer v.close()
	return r.record(v, r.workers[w])
}

// has is how many units of the prompt a worker has, and how many there are.
func (r *rig) has(p pipeline.RoutingPrompt, w int) (matched, input int) {
	v := r.look("m", &p)
	defer v.close()
	return v.units(r.workers[w]), v.input
}

func (r *rig) holding(p pipeline.RoutingPrompt, w int) int {
	n, _ := r.has(p, w)
	return n
}

func (r *rig) texts() *tree {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plant(treeName{"m", false})
}

func (r *rig) total() (units int) {
	for _, t := range *r.trees.Load() {
		units += int(t.total.Load())
	}
	return units
}

// units is what a worker is charged with in the tree of texts.
func (r *rig) units(w int) int {
	who := r.texts().tenants.of(r.workers[w])
	if who == nil {
		return 0
	}
	return int(who.units)
}

// shrink evicts until the trees have so many units.
func (r *rig) shrink(to int) {
	for _, t := range *r.trees.Load() {
		if excess := t.total.Load() - int64(to); excess > 0 {
			t.evict(excess, inUnits)
		}
	}
}

func (r *rig) sweep() { r.upkeep(time.Now(), nil) }

// drawing is a tree as text: one line for each node, its edge and the places of the workers that hold it.
func (r *rig) drawing(t *tree) []string {
	var lines []string
	var draw func(n *node, depth int)
	draw = func(n *node, depth int) {
		k := n.kids.Load()
		if k == nil {
			return
		}
		for i := range k.slots {
			c := k.slots[i].Load()
			if c == nil || c == gone {
				continue
			}
			line := strings.Repeat("  ", depth) + c.edge
			c.each(func(id uint32, _ uint64) {
				if who := t.tenants.resident(id); who != nil {
					line += " " + string(rune('0'+place(r.workers, who.worker.Load())))
				}
			})
			lines = append(lines, line)
			draw(c, depth+1)
		}
	}
	draw(&t.root, 0)
	draw(&t.spaces, 0)
	return lines
}

// audit recounts everything that is kept in counters, and checks what always holds. Nobody else uses the index meanwhile.
func (r *rig) audit() {
	r.t.Helper()
	var bytes int64
	for _, t := range *r.trees.Load() {
		bytes += auditTree(r.t, t)
	}
	require.Equal(r.t, bytes, r.memory.used.Load(), "bytes of the process")
}

// headOf is what a node is found by.
func headOf(t *tree, n *node) head {
	if n.ground {
		return head{n.head, n.edge}
	}
	return t.head(n.edge)
}

func auditTree(t testing.TB, tr *tree) (bytes int64) {
	t.Helper()
	units, entries := map[*tenant]int64{}, map[*tenant]int64{}
	count := func(parent, n *node) {
		require.False(t, n.dead)
		require.Same(t, n, parent.child(headOf(tr, n)), "a node is found by its head")
		if n.ground {
			require.NotNil(t, n.kids.Load(), "an empty partition")
		} else {
			require.Positive(t, n.count(), "nobody holds %q", n.edge)
			require.Equal(t, tr.units(n.edge), int(n.units))
		}
		bytes += n.bytes() + n.moreBytes() + n.kids.Load().bytes()
		n.each(func(id uint32, _ uint64) {
			who := tr.tenants.any(id)
			require.NotNil(t, who, "tenant %d is on a node and has been buried", id)
			units[who] += int64(n.units)
			entries[who]++
			require.True(t, parent.ground || parent.stampOf(id) != nil, "who has a prefix has what is above it")
		})
	}
	tr.climb(count)
	bytes += tr.root.kids.Load().bytes() + tr.spaces.kids.Load().bytes()
	var total int64
	for _, who := range *tr.tenants.byID.Load() {
		if who == nil {
			continue
		}
		require.Equal(t, units[who], who.units, "units of %v", who.worker.Load())
		require.Equal(t, entries[who], who.entries, "nodes of %v", who.worker.Load())
		if !who.dead.Load() {
			total += who.units
		}
	}
	require.Equal(t, total, tr.total.Load(), "units of the tree")
	require.Equal(t, bytes, tr.bytes.Load(), "bytes of the tree")
	return bytes
}
