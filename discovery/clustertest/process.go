package clustertest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// process is a server that ends with this process: its standard input is a pipe that ends when we do.
type process struct {
	cmd    *exec.Cmd
	stdin  *os.File
	stdout *os.File
	log    string // what it says on stderr
}

// launch starts the binary with arguments. No goroutine watches it: a cluster outlives the tests of a package, which look for
// goroutines that were left behind.
func launch(binary, log string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	theirInput, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirInput.Close()
	output, theirOutput, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	defer theirOutput.Close()
	p := &process{cmd: exec.Command(binary, args...), stdin: input, stdout: output, log: log}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirInput, theirOutput, out
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, input.Close(), output.Close())
	}
	return p, nil
}

// ended tells whether the process is over: its end of the pipe is closed then.
func (p *process) ended() bool {
	if err := p.stdout.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return true
	}
	for buffer := make([]byte, 512); ; {
		if _, err := p.stdout.Read(buffer); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// kill ends the process as a crash does, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // "signal: killed"
	_, _ = p.stdin.Close(), p.stdout.Close()
}

// until asks a server that starts whether it is ready. The error has the end of its log.
func (p *process) until(ready func() bool) error {
	const patience = 2 * time.Minute // a machine that is busy with other tests
	for start := time.Now(); !ready(); time.Sleep(20 * time.Millisecond) {
		if p.ended() || time.Since(start) > patience {
			said, _ := os.ReadFile(p.log)
			return fmt.Errorf("%s %s did not get ready: ...%s", p.cmd.Path, p.cmd.Args[1], said[max(0, len(said)-2000):])
		}
	}
	return nil
}
