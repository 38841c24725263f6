package policy

import "time"

// remembered is how many of the last credits a scorer can still tell the time of, over all workers: at 10,000 requests a second
// those of the last 0.4 s. A poll whose answer took longer than that keeps fewer of its worker's credits than it might.
const remembered = 1 << 12

// creditLog remembers when the last credits were given, so that a report takes only those back that the engine could know of: what
// was sent between the question and the answer is not in it. The zero log is empty.
type creditLog struct {
	entries []credit // a ring, made at the first use
	last    uint32   // sequence number of the last one; 0 before the first
}

// credit is one request that was sent to a worker.
type credit struct {
	at       time.Duration // since the scorer was made
	tokens   int64
	previous uint32 // the worker's entry before this one
	sequence uint32
	slot     int32
}

// add writes down a credit of an account.
func (l *creditLog) add(a *account, slot int, tokens int64, at time.Duration) {
	if l.entries == nil {
		l.entries = make([]credit, remembered)
	}
	if l.last++; l.last == 0 {
		l.last = 1 // after four billion
	}
	l.entries[l.last%remembered] = credit{at, tokens, a.newest, l.last, int32(slot)}
	a.newest = l.last
}

// since sums up the credits of an account that were given after a moment, as far back as the log reaches.
func (l *creditLog) since(a *account, moment time.Duration) (tokens int64, requests uint32) {
	if l.entries == nil {
		return 0, 0
	}
	slot := int32(a.worker.Slot())
	for n := a.newest; n != 0; {
		e := &l.entries[n%remembered]
		if e.sequence != n || e.slot != slot || e.at <= moment {
			break
		}
		tokens += e.tokens
		requests++
		n = e.previous
	}
	return tokens, requests
}
