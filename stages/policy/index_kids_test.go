package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// cache-aware.md, section 2.1: a table finds each of its children, however many there are and from whatever part of Unicode, and the search
// for one that is not there ends.
func TestATableOfChildrenFindsThem(t *testing.T) {
	for _, first := range []rune{'0', 'a', 'À', '一', '😀'} {
		for _, n := range []int{1, 2, 3, 4, 5, 7, 12, 13, 100, 700} {
			t.Run(fmt.Sprintf("%d from %c", n, first), func(t *testing.T) {
				tr := newTree(grain{}, 1<<20, newIndexMemory(0))
				var parent node
				children := map[rune]*node{}
				for i := range n {
					c := first + rune(i)
					children[c] = tr.newNode(string(c))
					parent.adopt(children[c])
				}
				for c, child := range children {
					require.Same(t, child, parent.child(tr.head(string(c))))
				}
				require.Nil(t, parent.child(tr.head(string(first+rune(n)))))
				for c, child := range children {
					parent.disown(child)
					require.Nil(t, parent.child(tr.head(string(c))))
				}
				require.Nil(t, parent.kids.Load())
			})
		}
	}
}
