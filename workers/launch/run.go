package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Gateway is what serves in front of the workers.
type Gateway struct {
	Address string // host:port where it listens
	// Serve runs the gateway in front of these workers. It returns when it has drained, which ctx, SIGTERM and SIGINT begin; a
	// second signal may shorten that. It listens to signals before it listens on Address.
	Serve func(ctx context.Context, workers []string) error
}

// Limits are the times that workers have.
type Limits struct {
	Ready time.Duration // from their start until all of them are ready
	Stop  time.Duration // from SIGTERM until they are killed
}

// Interrupted is the signal that ended [Run] before the gateway served.
type Interrupted struct{ Signal syscall.Signal }

func (i *Interrupted) Error() string {
	return fmt.Sprintf("stopped by a signal (%s) before the gateway served", i.Signal)
}

// The ways in which [Run] fails once the gateway serves, besides an error of the gateway.
var (
	ErrWorkersGone = errors.New("all workers have exited")
	ErrForced      = errors.New("stopped at once by a third signal, with requests in flight")
)

// Run starts the workers, serves in front of them until a signal comes, and stops them. Whichever way it returns, no process
// of theirs is left. It is the one to heed SIGTERM and SIGINT meanwhile:
//
//   - before the gateway serves, the workers are stopped and the error is an [*Interrupted];
//   - the first two after that are the gateway's business; the workers live until it has drained;
//   - a third ends the workers at once and does not wait for the gateway; any while the workers are being stopped kills them.
//
// If all workers have exited, the gateway is ended and the error is [ErrWorkersGone].
func Run(workers []Worker, o Options, limits Limits, g Gateway) error {
	signals := make(chan os.Signal, 4)
	listen(signals)
	defer signal.Stop(signals)
	if err := bindable(g.Address); err != nil {
		return err // rather now than when the engines have loaded their models
	}
	fleet, err := Start(workers, o)
	if err != nil {
		return err
	}
	r := &run{Fleet: fleet, gateway: g, signals: signals}
	defer r.stop(limits.Stop)
	if err := r.awaitReady(limits.Ready); err != nil {
		return err
	}
	return r.serve()
}

// run is one call of Run.
type run struct {
	*Fleet
	gateway Gateway
	signals chan os.Signal

	serving bool         // the gateway listens
	seen    int          // signals since then
	early   *Interrupted // the signal that came before, nil if none did
	gone    bool         // all workers have exited
	end     context.CancelFunc
}

func listen(signals chan os.Signal) { signal.Notify(signals, syscall.SIGTERM, os.Interrupt) }

// bindable tries the address of the gateway.
func bindable(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("failed to bind %s: %w", address, err)
	}
	return l.Close()
}

func (r *run) awaitReady(limit time.Duration) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- r.Ready(ctx, limit) }()
	select {
	case err := <-ready:
		return err
	case sig := <-r.signals:
		cancel()
		<-ready
		return r.interrupted(sig)
	}
}

func (r *run) interrupted(sig os.Signal) *Interrupted {
	r.Log.Info("signal before the gateway serves", "signal", sig.String())
	number, _ := sig.(syscall.Signal)
	return &Interrupted{Signal: number}
}

// serve runs the gateway, and returns when it has ended or must no longer be waited for.
func (r *run) serve() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r.end = cancel
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Serve(ctx, r.urls()) }()
	listening := make(chan struct{})
	go awaitListener(ctx, r.gateway.Address, listening)
	gone := r.exited
	for {
		select {
		case err := <-ended:
			return r.outcome(err)
		case <-listening:
			r.Log.Debug("the gateway listens", "address", r.gateway.Address)
			r.serving, listening = true, nil
		case <-gone:
			r.Log.Error("all workers have exited, the gateway ends")
			r.gone, gone = true, nil
			cancel()
		case sig := <-r.signals:
			if r.heed(sig) {
				return ErrForced
			}
		}
	}
}

// heed takes a signal while the gateway runs, and tells whether everything must end now.
func (r *run) heed(sig os.Signal) (now bool) {
	if !r.serving { // it may not have reached the gateway
		r.early = r.interrupted(sig)
		r.end()
		return false
	}
	r.seen++
	switch r.seen {
	case 1:
	case 2: // at the next one the gateway would end the process with the workers running, so it gets no more
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
		listen(r.signals)
	default:
		r.Log.Warn("third signal: killing the workers")
		r.Kill()
		return true
	}
	return false
}

func (r *run) outcome(err error) error {
	switch {
	case err != nil:
		return err
	case r.early != nil:
		return r.early
	case r.gone:
		return ErrWorkersGone
	}
	return nil
}

// stop ends the workers; a signal meanwhile kills them.
func (r *run) stop(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer cancel()
		select {
		case <-r.signals:
			r.Log.Warn("signal while workers are being stopped: killing them")
		case <-ctx.Done():
			select {
			case <-stopped:
			default:
				r.Log.Warn("workers do not end, killing them", "limit", limit.String())
			}
		}
	}()
	r.Log.Info("stopping the workers")
	r.Stop(ctx)
	close(stopped)
}

func (f *Fleet) urls() (urls []string) {
	for _, p := range f.processes {
		urls = append(urls, p.URL)
	}
	return urls
}

// awaitListener closes up when somebody listens on the address.
func awaitListener(ctx context.Context, address string, up chan<- struct{}) {
	for !listens(address) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	close(up)
}

func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
