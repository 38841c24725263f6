package policy

// join makes one node of a node and its only child, if both were last used by the same requests: one of the two ways that a split was
// made for has gone. So a tree takes as much memory as its prompts need, however many others have come and gone. Readers find in the old
// ones what they find in the new one, and no prompt becomes younger.
func (t *tree) join(parent, n *node) {
	if !n.joinable(n.kids.Load().only()) {
		return
	}
	parent.mu.Lock()
	defer parent.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.kids.Load().only()
	if n.dead || parent.dead || c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !n.joinable(c) {
		return
	}
	whole := t.newNode(n.edge + c.edge)
	whole.kids.Store(c.kids.Load())
	grown := whole.inherit(&c.holders) + whole.bytes()
	for _, was := range []*node{n, c} {
		grown -= was.moreBytes() + was.bytes()
		was.dead = true
	}
	t.count(grown - n.kids.Load().bytes())
	t.onNodes(c, -1)
	parent.replace(n, whole)
}

// joinable tells whether the node and its only child may be one.
func (n *node) joinable(c *node) bool {
	return c != nil && len(n.edge)+len(c.edge) <= maxEdge && n.same(&c.holders)
}

// sever splits a node behind so many units of its edge, if a tenant has that stamp there. It returns the two that it is now, or nil.
func (t *tree) sever(parent, n *node, units int, who *tenant, stamp uint64) (upper, lower *node) {
	parent.mu.Lock()
	defer parent.mu.Unlock()
	n.mu.Lock()
	s, m := n.stampOf(who.id), len(t.first(n.edge, int64(units)))
	if n.dead || parent.dead || s == nil || s.Load() != stamp || m == 0 || m == len(n.edge) {
		n.mu.Unlock()
		return nil, nil
	}
	upper, grown := t.split(parent, n, m)
	defer upper.mu.Unlock()
	t.count(grown)
	return upper, upper.kids.Load().only()
}
