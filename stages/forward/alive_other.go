//go:build !unix

package forward

// peeker is empty: there is no portable way to look into a socket without reading from it.
type peeker struct{}

func (c *conn) watch() {}

// alive tells whether an idle connection is known to be open. Here that is never known, so a connection is reused only while
// it is so young that nobody asks.
func (c *conn) alive() bool { return false }
