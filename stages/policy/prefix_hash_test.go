package policy

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// numbers are the tokens from 0 to n-1, and then others.
func numbers(n int, others ...uint32) *pipeline.Exchange {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(i)
	}
	return tokenised(append(tokens, others...)...)
}

func tokenised(tokens ...uint32) *pipeline.Exchange {
	x := request()
	x.Prompt.Tokens = tokens
	return x
}

func saying(text string) *pipeline.Exchange {
	x := request()
	x.Prompt.Text = text
	return x
}

const wave = "\U0001F30A"

// policies.md, section 12.4: ring keys and the order of their owners, with a depth of 256 tokens.
func TestHeadsAreHashedAsInTheSheet(t *testing.T) {
	h := heads{tokens: 256}
	r := newRing(named(t, "w1", "w2", "w3"))
	tests := []struct {
		name  string
		x     *pipeline.Exchange
		hash  uint64
		order string
	}{
		{"tokens [1,2,3]", tokenised(1, 2, 3), 0x6bbf7429332bea48, "w3,w2,w1"},
		{"tokens 0..4", numbers(5), 0x37573ad40b4916e8, "w1,w3,w2"},
		{"tokens 0..14", numbers(15), 0x4a08bda219bd1be7, "w2,w1,w3"},
		{"tokens 0..15", numbers(16), 0x79c2079c74a8ee4d, "w1,w2,w3"},
		{"tokens 0..63", numbers(64), 0xa6dcffc376d6710f, "w3,w1,w2"},
		{"tokens 0..255", numbers(256), 0xd12ba3ba3964c7ed, "w3,w1,w2"},
		{"more tokens than that", numbers(300), 0xd12ba3ba3964c7ed, "w3,w1,w2"},
		{"a text", saying("hi there"), 0xe8294cba1fbcf0ed, "w3,w1,w2"},
		{"another text", saying("shared-16-chars!"), 0xa00132ea4b1a987e, "w1,w3,w2"},
		{"a routing key", keyed("session-42"), 0xa5f911d74983374e, "w2,w1,w3"},
		{"a routing key that consistent_hashing places elsewhere", keyed("user-123"), 0xfc4b76c4e4777e39, "w1,w2,w3"},
		{"four characters outside of the basic plane", saying(strings.Repeat(wave, 4)), 0x485c953788bd3522, "w2,w1,w3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			head, ok := h.deepest(tt.x)
			require.True(t, ok)
			require.Equal(t, tt.hash, head.hash(tt.x))
			var owners []string
			for c := r.from(head.position(tt.x)); len(owners) < 3; {
				p, _ := c.next()
				if name := label(r.owners[p.owner]); !strings.Contains(strings.Join(owners, ","), name) {
					owners = append(owners, name)
				}
			}
			require.Equal(t, tt.order, strings.Join(owners, ","))
		})
	}
	require.EqualValues(t, uint64(0x2d06800538d394c2), hashTokens(nil), "zero bytes")
}

// policies.md, section 12.1, 12.2 and their checks: which head decides, and whom it leads to.
func TestTheHeadThatDecides(t *testing.T) {
	depth := func(n int) func(*Settings) { return func(s *Settings) { s.PrefixTokens = n } }
	boundaries := func(b ...int) func(*Settings) { return func(s *Settings) { s.Boundaries = b } }
	other := make([]uint32, 36)
	for i := range other {
		other[i] = 1e6 + uint32(i)
	}
	both := numbers(16)
	both.Prompt.Text = "hi there"
	everything := keyed("session-42")
	everything.Prompt = both.Prompt
	sent := keyed("session-42")
	sent.Key = pipeline.RoutingKey{Value: "session", Source: pipeline.HeaderKey, Sent: "session-42"}
	tests := []struct {
		name  string
		with  func(*Settings)
		x     *pipeline.Exchange
		want  string
		level int
	}{
		{"tokens beyond the depth do not count", depth(5), numbers(5, 100, 200), "w1", 0},
		{"whatever they are", depth(5), numbers(5, 9, 9), "w1", 0},
		{"characters are code points, four for a token, and never cut", depth(1), saying(strings.Repeat(wave, 6) + " tide"), "w2", 0},
		{"the deepest boundary that a prompt reaches", boundaries(16, 64), numbers(70), "w3", 64},
		{"whatever comes behind it", boundaries(16, 64), numbers(64, other...), "w3", 64},
		{"a boundary is reached with as many tokens", boundaries(16, 64), numbers(64), "w3", 64},
		{"one token short, the one before", boundaries(16, 64), numbers(63), "w1", 16},
		{"below the smallest, the fixed depth", boundaries(16, 64), numbers(15), "w2", 0},
		{"boundaries of a text are four characters a token", boundaries(4), saying("shared-16-chars! then"), "w1", 4},
		{"another text with that head", boundaries(4), saying("shared-16-chars! and so on"), "w1", 4},
		{"a text below the smallest", boundaries(4), saying("hi there"), "w3", 0},
		{"tokens win over the text", nil, both, "w1", 0},
		{"a routing key wins over both", nil, everything, "w2", 0},
		{"as it was sent", nil, sent, "w2", 0},
		{"the rid is not a key here", nil, func() *pipeline.Exchange { x := ridden("session-42"); x.Prompt = both.Prompt; return x }(), "w1", 0},
		{"but beside one the header is", nil, ridden("conv", "X-Smg-Routing-Key", "session-42"), "w2", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, "prefix_hash", 3, tt.with)
			require.Equal(t, tt.want, s.pick(tt.x))
			require.Equal(t, map[string]int{"ring_hit": 1}, branches(s.metrics.PrefixHash))
			logged := s.lines("Prefix-hash selection")
			require.Len(t, logged, 1)
			require.Equal(t, []any{"ring_hit", float64(tt.level), "http://" + tt.want + ":8000", "m1"},
				[]any{logged[0]["branch"], logged[0]["level"], logged[0]["worker"], logged[0]["model_id"]})
		})
	}
}

// policies.md, section 12.4: a turn and a much longer one that follows it, and texts that share a head.
func TestPromptsWithTheSameHeadMeet(t *testing.T) {
	s := newSite(t, "prefix_hash", 7, func(s *Settings) { s.Boundaries = []int{2048, 32768} })
	turn, next := make([]uint32, 3048), make([]uint32, 17000)
	for i := range 2048 {
		turn[i], next[i] = uint32(7*i), uint32(7*i)
	}
	for i := 2048; i < len(next); i++ {
		next[i] = 5
	}
	require.Equal(t, s.pick(tokenised(turn...)), s.pick(tokenised(next...)))

	s = newSite(t, "prefix_hash", 7, func(s *Settings) { s.PrefixTokens = 2 })
	seen := map[string]bool{}
	for i := range 50 {
		head := fmt.Sprintf("%08d", i)
		require.Equal(t, s.pick(saying(head)), s.pick(saying(head+" and more")))
		seen[s.pick(saying(head))] = true
	}
	require.Greater(t, len(seen), 4, "others go elsewhere")
}

// policies.md, section 12.4: the load check.
func TestTheLoadCheck(t *testing.T) {
	tests := []struct {
		name    string
		abs     int64
		loads   [4]int // in flight
		allowed []bool
	}{
		{"purely relative: 31.25 of a sum of 100", 0, [4]int{30, 35, 20, 15}, []bool{true, false, true, true}},
		{"ten above the mean: 20.25 of a sum of 40", 10, [4]int{13, 20, 7, 0}, []bool{true, true, true, true}},
		{"one more is too much", 10, [4]int{21, 13, 6, 0}, []bool{false, true, true, true}},
		{"relative where that is more: 250.3 of a sum of 800", 10, [4]int{240, 260, 200, 100}, []bool{true, false, true, true}},
		{"where nobody has any, everybody is fine", 0, [4]int{}, []bool{true, true, true, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := PrefixHash(Settings{PrefixLoadFactor: 1.25, PrefixBalanceAbs: tt.abs}, slog.New(slog.DiscardHandler)).(*prefixHash)
			_, all := fleet(t, 4)
			for i, w := range all {
				busy(w, tt.loads[i])
			}
			bound := p.bound(workers.ListOf(all...))
			for i, w := range all {
				require.Equal(t, tt.allowed[i], bound.allows(w), "%d in flight, at most %v", tt.loads[i], bound.most)
			}
		})
	}
	p := PrefixHash(Settings{PrefixLoadFactor: 1.25}, slog.New(slog.DiscardHandler)).(*prefixHash)
	_, all := fleet(t, 4)
	busy(all[0], 100)
	require.InDelta(t, 31.5625, p.bound(workers.ListOf(all...)).most, 1e-9)
}

// policies.md, section 12.4: D, the owner of the deep head, has too much, then S, that of the shallow one, too.
func TestAPromptWalksOnWhenItsWorkerHasTooMuch(t *testing.T) {
	s := newSite(t, "prefix_hash", 3, func(s *Settings) {
		s.PrefixLoadFactor, s.PrefixBalanceAbs, s.Boundaries = 1, 0, []int{16, 32}
	})
	var x *pipeline.Exchange
	var deep, shallow string
	h, r := heads{tokens: 256, boundaries: []int{16, 32}}, s.settings.roster.ring("m1")
	owner := func(head promptHead) string {
		return label(s.workers[r.find(head.position(x), workers.ListOf(s.workers...))])
	}
	for salt := uint32(0); deep == shallow; salt++ {
		x = numbers(40)
		x.Prompt.Tokens[0] = salt
		head, _ := h.deepest(x)
		next, _ := h.shorter(x, head)
		deep, shallow = owner(head), owner(next)
	}
	require.Equal(t, deep, s.pick(x), "all are idle")
	busy(s.named(deep), 2)
	require.Equal(t, shallow, s.pick(x))
	logged := s.lines("Prefix-hash selection")
	require.EqualValues(t, 16, logged[1]["level"])
	busy(s.named(shallow), 2)
	third := s.pick(x)
	require.NotContains(t, []string{deep, shallow}, third)
	require.Equal(t, map[string]int{"ring_hit": 2, "load_balance_walk": 1}, branches(s.metrics.PrefixHash))
	require.EqualValues(t, 0, s.lines("Prefix-hash selection")[2]["level"])
}

// policies.md, section 12.1 and 12.3: without anything to hash, or without a ring, least in flight decides, and chance among equals.
func TestPrefixHashWithoutAKeyChoosesLeastInFlight(t *testing.T) {
	s := newSite(t, "prefix_hash", 2, nil)
	s.workers[0].Begin()
	require.Equal(t, "w2", s.pick(request()))
	require.Equal(t, map[string]int{"no_routing_key": 1}, branches(s.metrics.PrefixHash))
	s.workers[0].End()
	seen := map[string]bool{}
	for range 100 {
		seen[s.pick(request())] = true
	}
	require.Len(t, seen, 2)
	s.down(1, 2)
	require.Equal(t, "none", s.pick(request()))
	require.Equal(t, "none", s.pick(keyed("session-42")))
	require.Equal(t, 2, branches(s.metrics.PrefixHash)["no_healthy_workers"])

	ringless := newSite(t, "prefix_hash", 0, nil)
	all := named(t, "w1", "w2")
	all[0].Begin()
	require.Equal(t, "w2", ringless.choose(keyed("session-42"), workers.ListOf(all...)))
	require.Equal(t, map[string]int{"fallback_least_load": 1}, branches(ringless.metrics.PrefixHash))
}

// policies.md, section 12.3: it does not make anybody read a body, but takes the text of one that was read.
func TestPrefixHashWantsTextWhereItIsRead(t *testing.T) {
	demand := &pipeline.Demand{}
	_, err := NewSet("prefix_hash", BuiltIn(Shared{}), demand, nil)
	require.NoError(t, err)
	require.False(t, demand.Text())
	require.True(t, demand.TextIfRead())
	require.True(t, demand.Tokens())
}

// No allocation, however long the prompt and whichever head decides.
func TestHashingAPromptAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	s := newSite(t, "prefix_hash", 10, func(s *Settings) {
		s.Boundaries = []int{16, 2048}
		s.Log = slog.New(slog.DiscardHandler)
	})
	p := PrefixHash(s.settings, slog.New(slog.DiscardHandler))
	among := workers.ListOf(s.workers...)
	for _, x := range []*pipeline.Exchange{numbers(5000), numbers(20), saying(strings.Repeat("lorem ipsum ", 1000)), keyed("session-42")} {
		p.Select(x, among)
		require.Zero(t, testing.AllocsPerRun(100, func() { p.Select(x, among) }))
	}
}

// policies.md, section 12: any text has a head that ends between two characters, and one that ends at a boundary if it reaches one.
func FuzzPrefixHead(f *testing.F) {
	f.Add("shared-16-chars! then", 4)
	f.Add(strings.Repeat(wave, 40), 2)
	f.Add("\xff\xfe broken \xf0\x9f", 1)
	f.Fuzz(func(t *testing.T, text string, boundary int) {
		boundary = 1 + min(max(boundary, 0), 1000)
		h := heads{tokens: 3, boundaries: []int{boundary, 2 * boundary}}
		x := saying(text)
		head, ok := h.deepest(x)
		require.Equal(t, text != "", ok)
		chars := len([]rune(text))
		require.Equal(t, chars >= 4*boundary, head.level > 0)
		for ok {
			want := 4 * head.level
			if head.level == 0 {
				want = min(chars, 12)
			}
			require.Len(t, []rune(text[:head.end]), want)
			head, ok = h.shorter(x, head)
		}
	})
}
