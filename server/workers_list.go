package server

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// viewSize is about how long a worker of a list is, in bytes: a guess that spares copies.
const viewSize = 1 << 10

// listWorkers answers with the registered workers, by time of registration; with ?model= those that serve it. A page that stays
// open over a large fleet must not be felt by requests: it takes no lock, and puts the list together from what is encoded already.
func (g *gateway) listWorkers() pipeline.Stage {
	return pipeline.StageFunc("list_workers", pipeline.Contract{}, func(x *pipeline.Exchange, _ pipeline.Next) error {
		all, asked := g.registry.All(), g.askedFor(x.Client.Query())
		l := workerList{page: append(make([]byte, 0, viewSize*(1+len(all))), `{"workers":[`...)}
		for _, w := range all {
			if !asked(w) {
				continue
			}
			if err := l.add(w); err != nil {
				return err
			}
		}
		return answer(x, http.StatusOK, "application/json", l.end())
	})
}

// workerList is the JSON of a list of workers in the making.
type workerList struct {
	page   []byte
	total  int
	counts [workers.Encode + 1]int // by type
}

func (l *workerList) add(w *workers.Worker) (err error) {
	if l.total++; l.total > 1 {
		l.page = append(l.page, ',')
	}
	l.counts[w.Type()]++
	l.page, err = w.AppendView(l.page)
	return err
}

// end is the whole list. Encode workers count in the total alone.
func (l *workerList) end() []byte {
	l.number(`],"total":`, l.total)
	l.number(`,"stats":{"prefill_count":`, l.counts[workers.Prefill])
	l.number(`,"decode_count":`, l.counts[workers.Decode])
	l.number(`,"regular_count":`, l.counts[workers.Regular])
	return append(l.page, "}}"...)
}

func (l *workerList) number(before string, n int) {
	l.page = strconv.AppendInt(append(l.page, before...), int64(n), 10)
}

// askedFor tells whether a worker is asked for by a query: ?model= is an id or an alias. One that takes every model always is.
func (g *gateway) askedFor(query string) func(*workers.Worker) bool {
	values, _ := url.ParseQuery(query)
	id, _ := g.registry.Resolve(values.Get("model"))
	return func(w *workers.Worker) bool { return id == "" || w.Model() == "" || w.Model() == id }
}
