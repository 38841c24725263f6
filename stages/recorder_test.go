package stages

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// told makes an opened recorder whose log is read.
func told(t testing.TB, path string) (*Recorder, *lines) {
	t.Helper()
	log := &lines{}
	rec := NewRecorder(path, telemetry.NewMetrics(telemetry.Options{}).Records, slog.New(slog.NewJSONHandler(log, nil)))
	require.NoError(t, rec.Open())
	t.Cleanup(func() { _ = rec.Close() })
	return rec, log
}

// became are the counts of a recorder: written, dropped, failed.
func became(rec *Recorder) [3]int {
	m := rec.metrics
	return [3]int{int(testutil.ToFloat64(m.Written)), int(testutil.ToFloat64(m.Dropped)), int(testutil.ToFloat64(m.Failed))}
}

// running runs a recorder as a gateway does, until the returned function is called.
func running(rec *Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	ready := make(chan struct{})
	over.Go(func() { _ = rec.Run(ctx, func() { close(ready) }) })
	<-ready
	return func() { cancel(); over.Wait() }
}

// Nothing of prompt, key or salt is in the file, as it is or in another writing.
func TestTheFileGivesNothingAway(t *testing.T) {
	const secret, key, model = "a very confidential matter", "patient-4711", "nobody-serves-jane-doe"
	r := newRig(t, 1, nil)
	rec := recorded(t, r)
	body := strings.Replace(small, "hi", secret, 1)
	require.Equal(t, 200, r.ask(post(chatPath, body, "X-Smg-Routing-Key", key, "Authorization", "Bearer hidden", "User-Agent", "agent")).status)
	require.Equal(t, 404, r.ask(post(chatPath, strings.Replace(body, "m1", model, 1))).status)
	require.NoError(t, rec.Close())
	text, err := os.ReadFile(rec.path)
	require.NoError(t, err)
	require.NotEmpty(t, text)
	secrets := []string{key, model, "hidden", "agent", "127.0.0.1"}
	for i := 0; i+4 <= len(secret); i++ { // every piece of four letters
		secrets = append(secrets, secret[i:i+4])
	}
	for _, s := range append(secrets, string(rec.salt[:]), string(rec.salt[:8])) {
		for _, form := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s))} {
			require.NotContains(t, string(text), form)
		}
	}
	info, err := os.Stat(rec.path)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "it is for its owner")
}

// A full disk costs lines and no request.
func TestAFullDiskCostsLinesAndNoRequest(t *testing.T) {
	const full = "/dev/full"
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: it needs " + full)
	}
	r := newRig(t, 1, nil)
	rec := recorded(t, r)
	log := &lines{}
	rec.log = slog.New(slog.NewJSONHandler(log, nil))
	file, err := os.OpenFile(full, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, rec.file.Close())
	rec.file = file
	for range 3 {
		require.Equal(t, 200, r.ask(chat()).status)
		rec.flush()
	}
	require.NoError(t, rec.Close())
	require.Equal(t, [3]int{0, 0, 3}, became(rec))
	said := log.records(t)
	require.Len(t, said, 2, "the first failure, and the sum at the end")
	require.Equal(t, "requests cannot be recorded", said[0]["msg"])
	require.Contains(t, said[0]["error"], "no space left")
	require.Equal(t, "WARN", said[1]["level"])
	require.EqualValues(t, 3, said[1]["failed"])
}

// What the disk took of a line that it did not take whole is cut off.
func TestALineThatWasCutByTheDiskIsTakenBack(t *testing.T) {
	rec, _ := told(t, filepath.Join(t.TempDir(), "f"))
	limited := &RequestRecord{Route: "/a"}
	rec.add(limited)
	rec.flush()
	before, err := os.ReadFile(rec.path)
	require.NoError(t, err)
	_, err = rec.file.WriteString("{\"timestamp\":1}\n{\"times") // what a write that failed has left
	require.NoError(t, err)
	rec.takeBack(len("{\"times"))
	after, err := os.ReadFile(rec.path)
	require.NoError(t, err)
	require.Equal(t, string(before)+"{\"timestamp\":1}\n", string(after))
}

// A bounded queue; what does not fit is dropped and counted, and nobody waits.
func TestWhatDoesNotFitIsDroppedAndCounted(t *testing.T) {
	rec, log := told(t, filepath.Join(t.TempDir(), "f"))
	large := &RequestRecord{Blocks: make([]uint64, 1<<20)}
	for range 5 { // nobody writes: it does not run
		rec.add(large)
	}
	counted := became(rec)
	require.Positive(t, counted[1])
	require.LessOrEqual(t, len(rec.waiting), waitingBytes)
	require.NoError(t, rec.Close())
	require.Equal(t, [3]int{5 - counted[1], counted[1], 0}, became(rec))
	require.EqualValues(t, counted[1], log.records(t)[0]["dropped"])
	rec.add(&RequestRecord{})
	require.Equal(t, counted[1]+1, became(rec)[1], "after the end everything is dropped")
	require.NoError(t, rec.Close(), "closing again does nothing")
	require.Len(t, log.records(t), 1)
}

// Many requests at once: every line is whole.
func TestLinesOfManyRequestsAreWhole(t *testing.T) {
	const clients, each = 8, 200
	rec, log := told(t, filepath.Join(t.TempDir(), "f"))
	stop := running(rec)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				rec.add(&RequestRecord{Input: 600, Blocks: []uint64{1, 2}})
			}
		})
	}
	all.Wait()
	stop()
	require.Len(t, ended(t, rec), clients*each)
	require.Equal(t, [3]int{clients * each, 0, 0}, became(rec))
	require.Equal(t, "INFO", log.records(t)[0]["level"])
}

// The file is appended to.
func TestARecordingGoesOnInAFileThatIsThere(t *testing.T) {
	const line = `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}`
	tests := []struct{ name, there, want string }{
		{"an empty file", "", ""},
		{"a recording", line + "\n", line + "\n"},
		{"a recording whose last line a crash has cut", line + "\n" + line[:20], line + "\n" + line[:20] + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, []byte(tt.there), 0o644))
			rec, _ := told(t, path)
			rec.add(&RequestRecord{})
			require.NoError(t, rec.Close())
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			rest, found := bytes.CutPrefix(text, []byte(tt.want))
			require.True(t, found, "%s", text)
			require.Equal(t, byte('{'), rest[0])
			require.Equal(t, 1, bytes.Count(rest, []byte("\n")))
		})
	}
}

func TestAFileThatCannotBeARecordingIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(path, []byte("buy milk"), 0o644))
	require.ErrorContains(t, NewRecorder(path, nil, nil).Open(), "notes.txt is there already, and is no recording")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "buy milk", string(text))
	require.ErrorIs(t, NewRecorder(filepath.Join(t.TempDir(), "missing", "f"), nil, nil).Open(), os.ErrNotExist)
}

// BenchmarkRecord is what a recording adds to a request, most of it when the answer has gone out.
func BenchmarkRecord(b *testing.B) {
	for _, kib := range []int{1, 32, 256} {
		b.Run(fmt.Sprintf("%dKiB", kib), func(b *testing.B) {
			rec := newRecorder(b, os.DevNull)
			defer running(rec)()
			s := &record{rec, chatPath, Chat}
			x := &pipeline.Exchange{Model: "m1", Served: true, Prompt: pipeline.RoutingPrompt{Text: strings.Repeat("x", kib<<10)}}
			b.ReportAllocs()
			for b.Loop() {
				rec.add(s.describe(x, &audience{}, nil))
			}
		})
	}
}
