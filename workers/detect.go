package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// The routes by which engines are told apart.
const (
	pathModels        = "/v1/models"
	pathVersion       = "/version"
	pathServerInfo    = "/server_info"
	pathOldServerInfo = "/get_server_info"
	pathModelInfo     = "/model_info"
	pathOldModelInfo  = "/get_model_info"
)

// interview asks one engine what it is. An answer is kept, so that detection and metadata ask each route once; a question that
// got no answer is asked again.
type interview struct {
	engine engine

	mu      sync.Mutex
	answers map[string]answer
	failure error // of the last question without an answer
}

func newInterview(e engine) *interview { return &interview{engine: e, answers: map[string]answer{}} }

// ask is the answer to GET path, the zero answer if there is none.
func (i *interview) ask(ctx context.Context, path string) answer {
	i.mu.Lock()
	a, known := i.answers[path]
	i.mu.Unlock()
	if known {
		return a
	}
	a, err := i.engine.get(ctx, path)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil {
		i.failure = err
		return answer{}
	}
	i.answers[path] = a
	return a
}

// detect finds out the engine. The error tells that it cannot be known yet, an engine that still loads for example.
func (i *interview) detect(ctx context.Context) (Runtime, error) {
	models := i.ask(ctx, pathModels)
	first, listed := firstModel(models)
	switch first["owned_by"] {
	case "sglang", "nvidia":
		return SGLang, nil
	case "vllm":
		return VLLM, nil
	}
	version, info := i.askBoth(ctx, pathVersion, pathServerInfo)
	switch {
	case version.ok():
		return VLLM, nil
	case info.ok():
		return SGLang, nil
	case listed:
		// Not asked for /get_server_info: another gateway forwards that, and would be taken for the engine behind it.
		return Generic, nil
	}
	old := i.ask(ctx, pathOldServerInfo)
	switch {
	case old.ok():
		return SGLang, nil
	case allMissing(models, version, info, old):
		return Generic, nil // healthy, and will never grow these routes
	}
	return Unspecified, i.undetected(models)
}

func (i *interview) askBoth(ctx context.Context, one, other string) (a, b answer) {
	var wg sync.WaitGroup
	wg.Go(func() { a = i.ask(ctx, one) })
	b = i.ask(ctx, other)
	wg.Wait()
	return a, b
}

func (i *interview) undetected(models answer) error {
	switch {
	case models.status == 0 && i.failure != nil:
		return fmt.Errorf("engine not identified: %w", i.failure)
	case !models.ok():
		return fmt.Errorf("engine not identified: GET %s: status %d", pathModels, models.status)
	}
	return fmt.Errorf("engine not identified: GET %s names no model", pathModels)
}

func allMissing(answers ...answer) bool {
	for _, a := range answers {
		if a.status != http.StatusNotFound {
			return false
		}
	}
	return true
}

// firstModel is the first entry of a list of models, flattened.
func firstModel(a answer) (model map[string]string, ok bool) {
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if !a.ok() || json.Unmarshal(a.body, &list) != nil || len(list.Data) == 0 {
		return nil, false
	}
	return flatten(list.Data[0]), true
}
