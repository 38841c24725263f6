package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// ConsistentHashing sends requests with the same key to the same worker, on every gateway that knows the same workers. The key is
// the routing key: under sticky sessions the rid of the body first, then the routing-key header as it was sent; without one, the
// client's Authorization, else X-Forwarded-For, else Cookie, each as it is. A request with none of them goes anywhere.
//
// X-SMG-Target-Worker beats every key: the number of an available worker of the model, counted from 0 in the order of GET /workers,
// or a worker's id or its exact URL. If that one may not be chosen nobody is, in any attempt. The number shifts when a worker drops
// out. A choice costs one hash and a short search, however many workers there are.
func ConsistentHashing(s Settings) Policy {
	s.roster.keepRings()
	p := &consistentHashing{roster: s.roster, chance: s.Chance}
	counters := s.counted().ConsistentHashing
	p.hit, p.miss = newDecision(counters, "target_worker_hit"), newDecision(counters, "target_worker_miss")
	p.keyed, p.random = newDecision(counters, "routing_key_hit"), newDecision(counters, "random_fallback")
	p.nobody = newDecision(counters, "no_healthy_workers")
	return p
}

type consistentHashing struct {
	stateless
	roster *roster
	chance *Chance

	hit, miss, keyed, random, nobody *decision
}

var (
	_ Policy   = (*consistentHashing)(nil)
	_ Reasoned = (*consistentHashing)(nil)
)

func (*consistentHashing) Name() string { return "consistent_hashing" }

func (p *consistentHashing) Select(x *pipeline.Exchange, among workers.List) int {
	if among.Len() == 0 {
		p.nobody.count(x)
		return -1
	}
	if target := targetHeader(x); target != "" {
		return p.target(x, among, target)
	}
	key := hashedKey(x)
	if key == "" {
		p.random.count(x)
		return p.chance.intN(among.Len())
	}
	p.keyed.count(x)
	return lookUp(x, p.roster.ring(x.Model), position(key), among)
}

const targetName = "X-Smg-Target-Worker"

// targetHeader is the worker that the client asks for; a value that is not visible ASCII counts as none.
func targetHeader(x *pipeline.Exchange) string {
	v := header(x, targetName)
	for i := range len(v) {
		if v[i] < 0x20 || v[i] > 0x7e {
			return ""
		}
	}
	return v
}

// target is the worker that the client asks for. Once an attempt has gone to it, it stays the one, though its number may have
// become another's.
func (p *consistentHashing) target(x *pipeline.Exchange, among workers.List, target string) int {
	i := -1
	if pin, asked := Pinned.Lookup(x); asked && pin.Only && x.Number > 1 {
		i = among.Index(pin.Worker)
	} else {
		i = targetPlace(among, target)
	}
	if i < 0 {
		p.miss.count(x)
		return -1
	}
	p.hit.count(x)
	pinTo(x, among.At(i), true)
	if x.Explain != nil {
		x.Explain.Rate(among.At(i), 0, pipeline.Part{Name: "target_worker", Value: float64(i)})
	}
	return i
}

// targetPlace is the place of a worker by its number, id or URL; -1 if it is not on the list.
func targetPlace(among workers.List, target string) int {
	if strings.Trim(target, "0123456789") == "" {
		n, err := strconv.ParseUint(target, 10, 31)
		if err != nil || int(n) >= among.Len() {
			return -1
		}
		return int(n)
	}
	id, err := workers.ParseID(target)
	byID := err == nil && len(target) == 36 // in the usual form
	for i, w := range among.Members() {
		if byID && w.ID() == id || w.URL() == target {
			return i
		}
	}
	return -1
}

// hashedKey is the key that decides; "" if the request has none.
func hashedKey(x *pipeline.Exchange) string {
	if x.Key.Source == pipeline.RIDKey {
		return x.Key.Value
	}
	if key := x.Key.Header(); key != "" {
		return key
	}
	if key := header(x, keyHeader); validKey(key) {
		return key
	}
	for _, name := range [...]string{"Authorization", "X-Forwarded-For", "Cookie"} {
		if key := header(x, name); key != "" && utf8.ValidString(key) {
			return key
		}
	}
	return ""
}

// lookUp is the place of the worker that a position belongs to. Without a ring that knows any of the candidates, those are counted
// off.
func lookUp(x *pipeline.Exchange, on *ring, at uint64, among workers.List) int {
	if on != nil {
		if i := on.find(at, among); i >= 0 {
			if x.Explain != nil {
				on.explain(x.Explain, at, among)
			}
			return i
		}
	}
	return int(at % uint64(among.Len()))
}

// explain rates every candidate by its distance from a position.
func (r *ring) explain(e *pipeline.Explanation, at uint64, among workers.List) {
	rated := make(map[int32]bool, r.count)
	for c := r.from(at); len(rated) < r.count; {
		p, ok := c.next()
		if !ok {
			return
		}
		if w := r.owners[p.owner]; !rated[p.owner] && among.Contains(w) {
			distance := turns(at, p.at)
			e.Rate(w, distance, pipeline.Part{Name: "ring_distance", Value: distance})
		}
		rated[p.owner] = true
	}
}

// Reason says why nobody was chosen of those who might have been.
func (*consistentHashing) Reason(x *pipeline.Exchange) string {
	if targetHeader(x) == "" {
		return ""
	}
	return fmt.Sprintf("X-SMG-Target-Worker names none of the workers that are available now: it is the number of one of them, "+
		"from 0 to %d in the order of GET /workers, or a worker's id or URL", x.Candidates.Len()-1)
}
