package engine

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkChat is one client on one connection with a body of 1 KiB. Of its time nearly all is the kernel's; the allocations are
// the engine's.
func BenchmarkChat(b *testing.B) {
	for _, stream := range []string{"false", "true"} {
		b.Run("stream="+stream, func(b *testing.B) {
			e := Start(b, Config{Name: "W1"})
			nc, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
			require.NoError(b, err)
			defer nc.Close()
			raw := []byte(rawPost("/v1/chat/completions",
				`{"stream":`+stream+`,"messages":[{"role":"user","content":"`+strings.Repeat("lorem ipsum ", 80)+`"}]}`))
			buf := make([]byte, 64<<10)
			b.ReportAllocs()
			for b.Loop() {
				_, err := nc.Write(raw)
				require.NoError(b, err)
				_, err = nc.Read(buf) // an answer is one write, and small enough to be one read
				require.NoError(b, err)
			}
		})
	}
}
