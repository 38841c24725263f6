package policy

// lot chooses uniformly among candidates that are equally good, in one pass, without knowing how many will come. The k-th of them
// takes the place of the one before with probability 1/k; instead of a random number for each, one tells how many will not. A fleet
// of 10,000 idle workers costs about ten of them.
type lot struct {
	chance *Chance
	place  int // of who has it so far
	held   int // how many it was drawn among
	next   int // which of them takes it next; 0: not drawn yet
}

// restart gives the lot to somebody who is better than all before.
func (l *lot) restart(place int) { l.place, l.held, l.next = place, 1, 0 }

// join adds one who is as good as those before.
func (l *lot) join(place int) {
	if l.held++; l.held >= l.next {
		l.turn(place)
	}
}

// turn is whoever comes first after those that a draw has passed over.
func (l *lot) turn(place int) {
	if l.next == 0 {
		l.next = l.draw(l.held - 1)
	}
	if l.held == l.next {
		l.place = place
		l.next = l.draw(l.held)
	}
}

// draw tells who takes the lot next after the k-th: that nobody up to the j-th does has probability k/j.
func (l *lot) draw(k int) int {
	u := 1 - l.chance.float() // above 0, up to 1
	return int(min(float64(k)/u, 1<<53)) + 1
}
