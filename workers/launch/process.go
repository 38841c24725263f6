package launch

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a worker that has been started.
type process struct {
	Worker
	cmd    *exec.Cmd
	out    outputs
	exited chan struct{}    // closed when it has ended and its group is gone
	state  *os.ProcessState // how it ended; read after exited
}

// start starts a worker. The error names the program that could not be started.
func start(w Worker, prefix string, stdout, stderr *sink) (*process, error) {
	p := &process{Worker: w, cmd: exec.Command(w.Argv[0], w.Argv[1:]...), exited: make(chan struct{})}
	p.cmd.Env = w.Env
	p.out.prefix = prefix
	tie(p.cmd)
	err := p.out.connect(p.cmd, stdout, stderr)
	if err == nil {
		started := make(chan error)
		go p.live(started)
		err = <-started
	}
	if err != nil {
		p.out.release()
		p.out.finish()
		return nil, fmt.Errorf("worker %d cannot be started: %w", w.Rank, err)
	}
	return p, nil
}

// live is the life of the worker. It has one thread of its own: the kernel ends a worker when the thread that started it ends,
// not only when the process does.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	if err != nil {
		started <- err
		return
	}
	p.out.release()
	started <- nil
	_ = p.cmd.Wait()
	signalGroup(p.cmd.Process, syscall.SIGKILL) // its children had it to tell them to end; now they have nobody
	p.out.finish()
	p.state = p.cmd.ProcessState
	close(p.exited)
}

// signal sends a signal to the worker and its children.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.exited:
	default:
		signalGroup(p.cmd.Process, sig)
	}
}

// ending says how the worker ended, after it has.
func (p *process) ending() string {
	if code := p.state.ExitCode(); code >= 0 {
		return fmt.Sprintf("exited with code %d", code)
	}
	return "was ended by " + p.state.String() // signal: killed
}
