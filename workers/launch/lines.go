package launch

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// maxLine is where a line that does not end is broken, in bytes.
	maxLine = 64 << 10
	// lastWords is how long the output of a worker that has ended is still read, should a process that it left behind keep it open.
	lastWords = time.Second
)

// sink is a writer that several workers share, a line at a time.
type sink struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sink) line(prefix string, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.w.Write(append(append([]byte(prefix), line...), '\n')) // nobody is left to tell
}

// outputs are the pipes from a worker to what its output goes to.
type outputs struct {
	prefix  string
	readers []*os.File
	writers []*os.File // the worker's ends
	copying sync.WaitGroup
}

// attach connects an output of the command. Without a prefix a file is inherited as it is, and colours and progress bars stay.
func (o *outputs) attach(s *sink) (io.Writer, error) {
	if file, ok := s.w.(*os.File); ok && o.prefix == "" {
		return file, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	o.readers, o.writers = append(o.readers, r), append(o.writers, w)
	o.copying.Go(func() { copyLines(s, o.prefix, r) })
	return w, nil
}

// connect attaches both outputs of the command.
func (o *outputs) connect(cmd *exec.Cmd, stdout, stderr *sink) (err error) {
	if cmd.Stdout, err = o.attach(stdout); err != nil {
		return err
	}
	cmd.Stderr, err = o.attach(stderr)
	return err
}

// release closes the worker's ends here; the worker has its own by now, or never will.
func (o *outputs) release() {
	for _, w := range o.writers {
		_ = w.Close()
	}
}

// finish returns when all that the worker wrote has been passed on.
func (o *outputs) finish() {
	for _, r := range o.readers {
		_ = r.SetReadDeadline(time.Now().Add(lastWords))
	}
	o.copying.Wait()
	for _, r := range o.readers {
		_ = r.Close()
	}
}

// copyLines passes on each line with the prefix. A carriage return ends a line too: progress bars are made of it.
func copyLines(s *sink, prefix string, from io.Reader) {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	in.Split(splitLine)
	for in.Scan() {
		s.line(prefix, in.Bytes())
	}
}

func splitLine(data []byte, atEOF bool) (advance int, token []byte, err error) {
	start := len(data) - len(bytes.TrimLeft(data, "\r\n"))
	rest := data[start:]
	if end := bytes.IndexAny(rest, "\r\n"); end >= 0 {
		return start + end + 1, rest[:end], nil
	}
	if len(rest) > 0 && (atEOF || len(data) >= maxLine) {
		return len(data), rest, nil
	}
	return start, nil, nil
}
