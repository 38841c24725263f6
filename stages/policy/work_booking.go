package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// booking is what least_work has to undo of one choice.
type booking struct {
	owner    *leastWork // nil: closed
	worker   *workers.Worker
	ticket   ticket
	placed   placement
	streamed bool
}

// bookings are the open ones of an attempt: one for each leg whose policy is least_work.
var bookings = pipeline.NewFact[[pipeline.MaxLegs]booking]("least_work")

// openBooking is a place for one more. If there is none, somebody has chosen again and again and never told the end: the first one
// is over.
func openBooking(x *pipeline.Exchange) *booking {
	all := bookings.Fill(x)
	for i := range all {
		if all[i].owner == nil {
			return &all[i]
		}
	}
	all[0].owner.books.over(&all[0].ticket)
	copy(all[:], all[1:])
	return &all[len(all)-1]
}
