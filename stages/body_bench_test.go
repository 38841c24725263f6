package stages

import (
	"fmt"
	"strings"
	"testing"
)

// sizes are those of the bodies that benchmarks read.
var sizes = []struct {
	name  string
	bytes int
}{{"1KiB", 1 << 10}, {"32KiB", 32 << 10}, {"256KiB", 256 << 10}}

// prose has an escape about every hundred bytes, as chats have; code has one about every twenty.
const (
	prose = `The gateway reads a body once, at the speed of memory, and forwards it byte for byte. A line ends here,\nnext one. `
	code  = `if err != nil {\n\treturn fmt.Errorf(\"open %q: %w\", name, err)\n}\n`
)

// chatBody is a chat of about that many bytes, in turns of 2 KiB.
func chatBody(bytes int, text string) []byte {
	const turn = 2 << 10
	var b strings.Builder
	b.WriteString(`{"model":"meta-llama/Llama-3.1-8B-Instruct","temperature":0.7,"max_tokens":256,"stream":true,"messages":[`)
	for i := 0; b.Len() < bytes-120 || i == 0; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		want := max(min(turn, bytes-b.Len()-60), 0)
		fmt.Fprintf(&b, `{"role":%q,"content":"%s"}`, []string{"user", "assistant"}[i%2], strings.Repeat(text, want/len(text)+1))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func perBody(b *testing.B, f func(b *testing.B, body []byte)) {
	for _, text := range []struct{ name, text string }{{"prose", prose}, {"code", code}} {
		for _, size := range sizes {
			b.Run(text.name+"/"+size.name, func(b *testing.B) {
				body := chatBody(size.bytes, text.text)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				f(b, body)
			})
		}
	}
}

// BenchmarkScan is what every buffered request pays before anything is known of it.
func BenchmarkScan(b *testing.B) {
	perBody(b, func(b *testing.B, body []byte) {
		var f fieldSet
		for b.Loop() {
			if err := scanObject(body, &f); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkScanPortable is the scanner where there is no native one.
func BenchmarkScanPortable(b *testing.B) {
	perBody(b, func(b *testing.B, body []byte) {
		for b.Loop() {
			if skipValue(body, 0) != len(body) {
				b.Fatal("invalid")
			}
		}
	})
}

// BenchmarkValidate is the rules of a chat, most of whose fields are absent, as usual.
func BenchmarkValidate(b *testing.B) {
	body := chatBody(1<<10, prose)
	var f fieldSet
	if err := scanObject(body, &f); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := Chat.validate(body, &f); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPromptText is what a policy that reads text costs.
func BenchmarkPromptText(b *testing.B) {
	perBody(b, func(b *testing.B, body []byte) {
		var f fieldSet
		if err := scanObject(body, &f); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if promptText(Chat, body, &f) == "" {
				b.Fatal("no text")
			}
		}
	})
}

func BenchmarkPromptTokens(b *testing.B) {
	body := []byte(`{"input_ids":[` + strings.Repeat("12345,", 8191) + `12345]}`)
	var f fieldSet
	if err := scanObject(body, &f); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if len(promptTokens(Generate, body, &f)) != 8192 {
			b.Fatal("tokens are missing")
		}
	}
}

func BenchmarkTokensHint(b *testing.B) {
	header := strings.Repeat("12345,", 511) + "12345"
	tokens := make([]uint32, 0, maxHintTokens)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := parseTokensHint(header, tokens); !ok {
			b.Fatal("refused")
		}
	}
}

// BenchmarkReplaceModel is what an alias costs: one copy of the body.
func BenchmarkReplaceModel(b *testing.B) {
	perBody(b, func(b *testing.B, body []byte) {
		var f fieldSet
		if err := scanObject(body, &f); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			moved := f
			replaceModel(body, &moved, "canonical")
		}
	})
}

func BenchmarkPeekModel(b *testing.B) {
	body := chatBody(32<<10, prose)
	first := body[:4096]
	b.ReportAllocs()
	for b.Loop() {
		if _, found := peekModel(first); !found {
			b.Fatal("no model")
		}
	}
}
