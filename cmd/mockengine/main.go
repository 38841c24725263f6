package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// flags is the command line.
type flags struct {
	Engine       string        `help:"Engine whose answers are given: ${enum}." enum:"sglang,vllm" default:"sglang"`
	Host         string        `help:"Address to listen on." default:"127.0.0.1"`
	Port         int           `help:"Port of the first engine; 0 takes free ones." default:"0"`
	Count        int           `help:"How many engines, on successive ports." default:"1"`
	Name         string        `help:"What the id of every answer begins with; of several engines NAME-1, NAME-2, ... (default: mock-PORT)."`
	Model        []string      `help:"Name of a model it serves; may be repeated." default:"m1" sep:"none"`
	APIKey       string        `name:"api-key" help:"Bearer token it asks for."`
	ReplyTokens  int           `help:"Tokens of a reply; a request may ask for fewer." default:"16"`
	TTFT         time.Duration `name:"ttft" help:"Time to the first token." default:"0s"`
	ITL          time.Duration `name:"itl" help:"Time between tokens." default:"0s"`
	Seed         uint64        `help:"Seed of the draws of faults with a probability; 0 takes a random one." default:"0"`
	KeepRequests int           `help:"How many requests each engine remembers for /mock/requests; 0 is none." default:"10000"`

	Speed `embed:""`
}

// maxReplyTokens bounds the text that is made at the start.
const maxReplyTokens = 1 << 20

// Validate is called by kong.
func (f *flags) Validate() error {
	switch {
	case f.Count < 1:
		return errors.New("--count must be at least 1")
	case f.Port < 0 || f.Port > 65535 || f.Port > 0 && f.Port+f.Count-1 > 65535:
		return errors.New("--port and those after it must be 0 to 65535")
	case f.ReplyTokens < 1 || f.ReplyTokens > maxReplyTokens:
		return fmt.Errorf("--reply-tokens must be 1 to %d", maxReplyTokens)
	case f.TTFT < 0 || f.ITL < 0:
		return errors.New("--ttft and --itl must not be negative")
	case f.KeepRequests < 0:
		return errors.New("--keep-requests must not be negative")
	case f.TTFT > 0 && f.Speed != (Speed{}):
		return errors.New("--ttft is the fixed time of an engine without a model; leave it out with the flags of the model")
	}
	return f.Speed.check()
}

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // memory for speed: the log of requests is most of what lives
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run serves until ctx ends and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var f flags
	parser, err := kong.New(&f, kong.Name("mockengine"), kong.Writers(stdout, stderr),
		kong.Description("Fake inference engines for tests and benchmarks."))
	if err != nil {
		panic(err) // the struct above is wrong
	}
	if _, err := parser.Parse(args); err != nil {
		fmt.Fprintf(stderr, "mockengine: %v\n", err)
		return 2
	}
	if err := serve(ctx, &f, stdout); err != nil {
		fmt.Fprintf(stderr, "mockengine: %v\n", err)
		return 1
	}
	return 0
}

// serve runs the engines until ctx ends or one of them fails.
func serve(ctx context.Context, f *flags, stdout io.Writer) error {
	listeners, err := listen(f)
	if err != nil {
		return err
	}
	failed := make(chan error, len(listeners))
	for i, ln := range listeners {
		e := engine.New(f.config(i))
		go func() { failed <- e.Serve(ln) }()
		defer e.Close()
		defer ln.Close() // if Serve has not begun yet, Close does not know of it
	}
	for _, ln := range listeners {
		fmt.Fprintf(stdout, "http://%s\n", ln.Addr())
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// listen opens all ports or none.
func listen(f *flags) ([]net.Listener, error) {
	var listeners []net.Listener
	for i := range f.Count {
		port := 0
		if f.Port > 0 {
			port = f.Port + i
		}
		ln, err := net.Listen("tcp", net.JoinHostPort(f.Host, strconv.Itoa(port)))
		if err != nil {
			for _, open := range listeners {
				_ = open.Close()
			}
			return nil, err
		}
		listeners = append(listeners, ln)
	}
	return listeners, nil
}

// seed is that of engine i: each draws for itself.
func (f *flags) seed(i int) uint64 {
	if f.Seed == 0 {
		return 0
	}
	return f.Seed + uint64(i)
}

// config is that of engine i.
func (f *flags) config(i int) engine.Config {
	name := f.Name
	if name != "" && f.Count > 1 {
		name = fmt.Sprintf("%s-%d", name, i+1)
	}
	keep := f.KeepRequests
	if keep == 0 {
		keep = -1
	}
	return engine.Config{
		Engine: engine.Kind(f.Engine), Name: name, Models: f.Model, APIKey: f.APIKey, Reply: f.ReplyTokens,
		TTFT: f.TTFT, ITL: f.ITL, Keep: keep, Seed: f.seed(i), Model: f.model(f.ITL),
	}
}
