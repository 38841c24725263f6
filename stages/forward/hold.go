package forward

import (
	"errors"
	"io"
	"slices"

	"github.com/smg-go/smg/pipeline"
)

// held is how many bytes of an answer are kept back for another attempt.
const held = 1 << 20

// hold reads an answer and returns it as an error, so that the retry stage decides. One that is too long to keep goes to the
// client: that ends the attempts.
func (f *forward) hold(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer) error {
	body, err := p.readWhole(x, leg, a, held)
	switch {
	case errors.Is(err, errTooLong):
		return f.resume(x, leg, p, a, body)
	case err != nil:
		return unread(leg, p, err)
	}
	leg.Outcome, p.last = pipeline.Answered, body
	return &pipeline.Error{Status: a.Status, Held: &pipeline.Answer{
		Status: a.Status, Fields: slices.Clone(a.Fields),
		Body: slices.Clone(body), Trailers: slices.Clone(endToEnd(a.Trailers(), "")),
	}}
}

// resume relays an answer of which a part was read already.
func (f *forward) resume(x *pipeline.Exchange, leg *pipeline.Leg, p *passage, a *answer, begun []byte) error {
	if err := a.uploaded(); err != nil {
		return unread(leg, p, err)
	}
	defer p.limitWriting(x)()
	if err := x.WriteHead(a.Status, a.ContentLength, a.Fields); err != nil {
		return clientLeft(leg)
	}
	for piece := begun; ; {
		if _, err := x.Client.Write(piece); err != nil {
			return clientLeft(leg)
		}
		var err error
		if piece, err = a.next(); err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) {
			return f.broke(x, leg, p, err, false)
		}
		return relayed(x, leg, a)
	}
}

// relayed is the good end of an answer that was relayed as it came.
func relayed(x *pipeline.Exchange, leg *pipeline.Leg, a *answer) error {
	leg.Outcome = pipeline.Answered
	if trailers := endToEnd(a.Trailers(), ""); len(trailers) > 0 {
		x.Client.Trailers(trailers)
	}
	return nil
}
