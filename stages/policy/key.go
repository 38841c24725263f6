package policy

import (
	"unicode/utf8"

	"github.com/smg-go/smg/pipeline"
)

// maxKey is how long a routing key may be, in bytes.
const maxKey = 128

func validKey(v string) bool { return v != "" && len(v) <= maxKey && utf8.ValidString(v) }

// keyHeader is the header that names a routing key for the policies that read it themselves.
const keyHeader = "X-Smg-Routing-Key"

// header is a header of the request; "" where there is no client.
func header(x *pipeline.Exchange, name string) string {
	if x.Client == nil {
		return ""
	}
	return x.Client.Header(name)
}
