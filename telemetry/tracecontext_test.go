package telemetry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	someTrace  = "0af7651916cd43dd8448eb211c80319c"
	someSpan   = "b7ad6b7169203331"
	someParent = "00-" + someTrace + "-" + someSpan + "-01"
)

// telemetry.md, section 6.3; W3C Trace Context, sections 3.2 and 4.3
func TestTraceContextIsReadOnlyIfItIsValid(t *testing.T) {
	const none = ""
	tests := []struct{ name, header, rendered string }{
		{"a recorded parent", someParent, someParent},
		{"a parent that is not recorded", someParent[:53] + "00", someParent[:53] + "00"},
		{"of the flags only the lowest bit counts", someParent[:53] + "fe", someParent[:53] + "00"},
		{"all flags have the lowest bit", someParent[:53] + "ff", someParent},
		{"a later version is read as far as this one knows it", "01" + someParent[2:], someParent},
		{"a later version may have more behind a dash", "cc" + someParent[2:] + "-what-the-future-holds", someParent},
		{"a later version may have nothing behind the dash", "01" + someParent[2:] + "-", someParent},
		{"a later version without the dash is no such thing", "01" + someParent[2:] + ".x", none},
		{"this version has nothing more", someParent + "-x", none},
		{"this version has no dash behind it either", someParent + "-", none},
		{"version ff is forbidden", "ff" + someParent[2:], none},
		{"a version is hexadecimal", "0g" + someParent[2:], none},
		{"a version is in lower case", "0A" + someParent[2:], none},
		{"an empty header is none", "", none},
		{"a trace id in upper case", "00-" + strings.ToUpper(someTrace) + someParent[35:], none},
		{"a span id in upper case", someParent[:36] + strings.ToUpper(someSpan) + "-01", none},
		{"flags in upper case", someParent[:53] + "0B", none},
		{"a trace id that is no number", "00-x" + someTrace[1:] + someParent[35:], none},
		{"a span id that is no number", someParent[:36] + "x" + someSpan[1:] + "-01", none},
		{"flags that are no number", someParent[:53] + "0x", none},
		{"a trace id of zeros", "00-" + strings.Repeat("0", 32) + someParent[35:], none},
		{"a span id of zeros", someParent[:36] + strings.Repeat("0", 16) + "-01", none},
		{"a trace id that is too short", "00-" + someTrace[1:] + someParent[35:], none},
		{"a trace id that is too long", "00-a" + someTrace + someParent[35:], none},
		{"a span id that is too short", someParent[:36] + someSpan[1:] + "-01", none},
		{"flags that are too short", someParent[:54], none},
		{"no flags", someParent[:52], none},
		{"another character than a dash behind the version", "00_" + someParent[3:], none},
		{"another character than a dash behind the trace id", someParent[:35] + "_" + someParent[36:], none},
		{"another character than a dash behind the span id", someParent[:52] + "_" + someParent[53:], none},
		{"a space in front", " " + someParent, none},
		{"two values in one header", someParent + "," + someParent, none},
		{"letters that only look like digits", "00-" + someTrace[:30] + "\u0661" + someParent[35:], none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, ok := parseTraceContext(tt.header, "vendor=1")
			require.Equal(t, tt.rendered != none, ok)
			if ok {
				require.Equal(t, tt.rendered, c.traceparent())
				require.Equal(t, "vendor=1", c.state, "tracestate is passed on as it came")
			}
		})
	}
}

// W3C Trace Context, section 3.3: tracestate without traceparent is nothing.
func TestTraceStateAloneIsNothing(t *testing.T) {
	c, ok := parseTraceContext("", "vendor=1")
	require.False(t, ok)
	require.Empty(t, c.state)
}

// telemetry.md, section 6.3
func TestChildIsInTheSameTrace(t *testing.T) {
	parent, ok := parseTraceContext(someParent, "vendor=1")
	require.True(t, ok)
	seen := map[[8]byte]bool{parent.span: true}
	for range 100 {
		child := parent.child()
		require.Equal(t, parent.trace, child.trace)
		require.True(t, child.sampled)
		require.Equal(t, "vendor=1", child.state)
		require.False(t, seen[child.span], "each child is another span, and none is the parent")
		seen[child.span] = true
	}
}

// FuzzTraceContext: whatever is read is rendered with the same ids and the same decision, and is read again.
func FuzzTraceContext(f *testing.F) {
	f.Add(someParent, "")
	f.Add("01"+someParent[2:]+"-later", "vendor=1")
	f.Add("ff"+someParent[2:], "")
	f.Fuzz(func(t *testing.T, header, state string) {
		c, ok := parseTraceContext(header, state)
		if !ok {
			return
		}
		rendered := c.traceparent()
		require.Equal(t, header[2:53], rendered[2:53])
		again, ok := parseTraceContext(rendered, state)
		require.True(t, ok)
		require.Equal(t, c, again)
	})
}
