package policy

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"

	"github.com/zeebo/blake3"

	"github.com/smg-go/smg/workers"
)

// virtualNodes is how many points each URL has on a ring.
const virtualNodes = 150

// ring places keys on workers so that a worker that comes or goes moves the keys of its own share alone. Every worker of the model
// is on it, whether it may be chosen or not: a key goes to its owner's successor while the owner is out, and comes back with it.
// Gateways that know the same URLs agree on every key.
//
// A ring never changes; with and without make others that share most of it.
type ring struct {
	arcs   [][]point // equal parts of the circle, as many as a power of two, each in ascending order
	shift  int       // what is left of a position shifted by it is its arc
	size   int       // points
	owners []*workers.Worker
	count  int // of owners; the others' numbers are free
}

// point is one virtual node: a position, and the number of its owner.
type point struct {
	at    uint64
	owner int32
}

// position is where a key is on every ring.
func position(key string) uint64 {
	var short [128]byte // as long as a routing key may be: nothing is allocated
	if len(key) <= len(short) {
		return positionOf(short[:copy(short[:], key)])
	}
	return positionOf([]byte(key))
}

func positionOf(key []byte) uint64 {
	sum := blake3.Sum256(key)
	return binary.LittleEndian.Uint64(sum[:])
}

// pointsOf are the points of a URL in ascending order.
func pointsOf(url string, owner int32) []point {
	points := make([]point, virtualNodes)
	name := append([]byte(url), '#')
	for i := range points {
		points[i] = point{positionOf(strconv.AppendInt(name, int64(i), 10)), owner}
	}
	slices.SortFunc(points, byPosition)
	return points
}

func byPosition(a, b point) int {
	if a.at < b.at {
		return -1
	}
	if a.at > b.at {
		return 1
	}
	return 0
}

// arcPoints is how many points an arc has on average when the arcs are laid out; with four times as many they are laid out anew.
const arcPoints = 64

// newRing is a ring of workers, built at once. A URL that occurs again counts once.
func newRing(members []*workers.Worker) *ring {
	var points []point
	r := &ring{}
	urls := make(map[string]bool, len(members))
	for _, w := range members {
		if !urls[w.URL()] {
			urls[w.URL()] = true
			points = append(points, pointsOf(w.URL(), int32(len(r.owners)))...)
			r.owners = append(r.owners, w)
		}
	}
	slices.SortStableFunc(points, byPosition) // stable: of equal positions, the earlier worker's comes first
	r.count = len(r.owners)
	r.layOut(points)
	return r
}

// layOut distributes points, in ascending order, over as many arcs as suit them.
func (r *ring) layOut(points []point) {
	r.size = len(points)
	log := max(0, bits.Len(uint(len(points)/arcPoints))-1)
	r.shift = 64 - log
	r.arcs = make([][]point, 1<<log)
	for i := range r.arcs {
		end := len(points)
		if i < len(r.arcs)-1 {
			end, _ = slices.BinarySearchFunc(points, point{at: uint64(i+1) << r.shift}, byPosition)
		}
		r.arcs[i], points = slices.Clip(points[:end]), points[end:]
	}
}

func (r *ring) arcOf(at uint64) int { return int(at >> r.shift) }

// number is the number of the owner with a URL; -1 if it is not on the ring.
func (r *ring) number(url string) int {
	if r == nil {
		return -1
	}
	return slices.IndexFunc(r.owners, func(w *workers.Worker) bool { return w != nil && w.URL() == url })
}

// with is the ring with one more worker, or with another worker under a URL that is there already. r may be nil.
func (r *ring) with(w *workers.Worker) *ring {
	if r == nil {
		return newRing([]*workers.Worker{w})
	}
	next := *r
	next.owners = slices.Clone(r.owners)
	if i := r.number(w.URL()); i >= 0 {
		next.owners[i] = w
		return &next
	}
	i := slices.Index(next.owners, nil)
	if i < 0 {
		i = len(next.owners)
		next.owners = append(next.owners, nil)
	}
	next.owners[i] = w
	next.count++
	next.change(pointsOf(w.URL(), int32(i)), merge)
	next.size += virtualNodes
	next.settle()
	return &next
}

// without is the ring without a worker; nil when nobody is left. A worker that is not on it, or has been replaced by another one of
// its URL, changes nothing.
func (r *ring) without(w *workers.Worker) *ring {
	i := r.number(w.URL())
	if i < 0 || r.owners[i] != w {
		return r
	}
	if r.count == 1 {
		return nil
	}
	next := *r
	next.owners = slices.Clone(r.owners)
	next.owners[i] = nil
	next.count--
	next.change(pointsOf(w.URL(), int32(i)), subtract)
	next.size -= virtualNodes
	next.settle()
	return &next
}

// change replaces the arcs on which the points lie, each by what f makes of it and those of the points that lie there.
func (r *ring) change(points []point, f func(arc, points []point) []point) {
	r.arcs = slices.Clone(r.arcs)
	for len(points) > 0 {
		arc, n := r.arcOf(points[0].at), 1
		for n < len(points) && r.arcOf(points[n].at) == arc {
			n++
		}
		r.arcs[arc] = f(r.arcs[arc], points[:n])
		points = points[n:]
	}
}

// merge is both, in order; of equal positions, that of the arc comes first.
func merge(arc, points []point) []point {
	merged := make([]point, 0, len(arc)+len(points))
	for _, p := range points {
		n := 0
		for n < len(arc) && arc[n].at <= p.at {
			n++
		}
		merged = append(append(merged, arc[:n]...), p)
		arc = arc[n:]
	}
	return append(merged, arc...)
}

// subtract is the arc without the points of their owner.
func subtract(arc, points []point) []point {
	rest := make([]point, 0, len(arc))
	for _, p := range arc {
		if p.owner != points[0].owner {
			rest = append(rest, p)
		}
	}
	return rest
}

// settle lays the arcs out anew when they have become too full or too empty.
func (r *ring) settle() {
	if full := r.size / len(r.arcs); full <= 4*arcPoints && (full >= arcPoints/4 || len(r.arcs) == 1) {
		return
	}
	all := make([]point, 0, r.size)
	for _, arc := range r.arcs {
		all = append(all, arc...)
	}
	r.layOut(all)
}
