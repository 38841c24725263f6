package discovery_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/smg-go/smg/discovery"
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/workers"
)

// fixed is a source that never changes its mind.
type fixed []discovery.Wanted

func (fixed) Name() string                         { return "fixed" }
func (f fixed) Wanted() ([]discovery.Wanted, bool) { return f, true }
func (fixed) Watch(ctx context.Context, w discovery.Watcher) error {
	w.Changed(discovery.Change{Alters: true}) // it has been read
	<-ctx.Done()
	return ctx.Err()
}

// A discovery is a dependency: it runs while a chain that is served has a stage that uses it. This one has a source of its own; those of
// package discovery are made by NewKubernetes and NewFile.
func ExampleNew() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"data":[{"id":"llama","owned_by":"vllm"}]}`)
	}))
	defer engine.Close()

	registry := workers.NewRegistry()
	enroller := workers.NewEnroller(registry, workers.DefaultSettings(), workers.DefaultStartup(), nil)
	defer enroller.Close()
	source := fixed{{
		Claim: discovery.Claim{Address: engine.Listener.Addr().String(), Owner: "1"},
		Name:  "first", Spec: workers.NewSpec(engine.URL),
	}}
	found := discovery.New(source, registry, enroller, discovery.DefaultSettings())

	chain, err := pipeline.Assemble("GET /who",
		pipeline.StageFunc("model", pipeline.Contract{Gives: []pipeline.Fact{pipeline.Model}}, func(x *pipeline.Exchange, next pipeline.Next) error {
			x.Model = "llama"
			return next(x)
		}),
		stages.Candidates(registry, found), // what it chooses from is discovered
		stages.Available(),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	runtime := pipeline.NewRuntime(slog.New(slog.DiscardHandler))
	defer runtime.Stop(context.Background())
	if err := runtime.Serve(chain); err != nil {
		fmt.Println(err)
		return
	}
	for registry.Pool("llama", workers.Regular, workers.HTTP).NotReady() > 0 || registry.Len() == 0 {
		time.Sleep(time.Millisecond)
	}
	w := registry.All()[0]
	fmt.Println(w.Model(), w.Status(), w.Spec().Labels[discovery.LabelID])
	// Output: llama ready first
}
