package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// sizeRange is the sizes from one to another, both included.
type sizeRange struct{ from, to int64 }

// sizeRanges cover all sizes, without gaps.
type sizeRanges []sizeRange

// span is what even ranges divide.
const span = 4096

func evenRanges(n int) sizeRanges {
	ranges := make(sizeRanges, n)
	gap := int64(span / n)
	for i := range ranges {
		ranges[i] = sizeRange{int64(i) * gap, int64(i+1)*gap - 1}
	}
	ranges[n-1].to = math.MaxInt64
	return ranges
}

// rangesOf divides sorted sizes so that those in each range add up to share at least, as long as there are any.
func rangesOf(sizes []int64, share int64, n int) sizeRanges {
	ranges := make(sizeRanges, n)
	from := int64(0)
	for i := range n - 1 {
		to, sum := from+share, int64(0)
		for len(sizes) > 0 && sum < share {
			if sum += sizes[0]; sum >= share && sizes[0] > from {
				to = sizes[0]
			}
			sizes = sizes[1:]
		}
		ranges[i] = sizeRange{from, to}
		from = to + 1
	}
	ranges[n-1] = sizeRange{from, math.MaxInt64}
	return ranges
}

// of is the place of the range that a size is in.
func (r sizeRanges) of(size int64) int {
	i, _ := slices.BinarySearchFunc(r, size, func(one sizeRange, size int64) int {
		if one.to < size {
			return -1
		}
		return 1
	})
	return i
}

func (r sizeRanges) String() string {
	var s strings.Builder
	for _, one := range r {
		if one.to == math.MaxInt64 {
			fmt.Fprintf(&s, "[%d,∞)", one.from)
		} else {
			fmt.Fprintf(&s, "[%d,%d] ", one.from, one.to)
		}
	}
	return s.String()
}
