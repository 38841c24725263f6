package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Rank is the data-parallel rank that the worker is, as its engine numbers them; ok is false if it is a whole engine.
func (w *Worker) Rank() (rank int, ok bool) {
	if w.spec.DPRank == nil {
		return 0, false
	}
	return *w.spec.DPRank, true
}

// ranks are the specs of the workers that an engine is: one for each of its data-parallel ranks, if the gateway is to tell them apart.
// The URL of a single rank gives that one.
func (a *approach) ranks(ctx context.Context, spec Spec) ([]Spec, error) {
	own, single := a.endpoint.rank()
	switch {
	case !a.byRank || a.mode == replace:
		return []Spec{spec}, nil
	case spec.RuntimeType != SGLang:
		a.log.Warn("engine tells nothing of data-parallel ranks, it is one worker", "worker", a.endpoint.URL, "runtime", spec.RuntimeType.String())
		return []Spec{spec}, nil
	}
	size, err := a.dpSize(ctx, spec.Labels)
	if err != nil {
		return nil, err
	}
	first := a.firstRank(ctx, size)
	var all []Spec
	for rank := first; rank < first+size; rank++ {
		if single && rank != own {
			continue
		}
		one := spec.Clone()
		one.URL, one.DPBaseURL = a.endpoint.Base+"@"+strconv.Itoa(rank), a.endpoint.Base
		one.DPRank, one.DPSize = &rank, &size
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the engine has the ranks %d to %d, not %d", first, first+size-1, own)
	}
	return all, nil
}

// dpSize is how many ranks the engine has. It is asked for once more, and once again, if it has not said so yet.
func (a *approach) dpSize(ctx context.Context, labels map[string]string) (int, error) {
	const most = 4096 // what an engine says must not cost the gateway its memory
	for try := 1; ; try++ {
		switch n, err := strconv.Atoi(labels["dp_size"]); {
		case err == nil && n >= 1 && n <= most:
			return n, nil
		case try == metadataTries:
			return 0, fmt.Errorf("the engine does not tell its dp_size, which --dp-aware needs; it says '%s'", labels["dp_size"])
		}
		if err := a.turn.Pause(ctx, time.Second); err != nil {
			return 0, err
		}
		_ = a.asking(ctx, metadataTimeout, func(ctx context.Context) error {
			labels, _ = newInterview(a.engine()).metadata(ctx, a.runtime)
			return nil
		})
	}
}

// firstRank is the number of the engine's first rank. An engine that is part of a larger group says in its load report what its
// ranks are called there; without one they are numbered from 0.
func (a *approach) firstRank(ctx context.Context, size int) int {
	var told answer
	_ = a.asking(ctx, metadataTimeout, func(ctx context.Context) (err error) {
		told, err = a.engine().get(ctx, loadsPath)
		return err
	})
	var report struct {
		Loads []struct {
			Rank *int `json:"dp_rank"`
		} `json:"loads"`
	}
	if !told.ok() || json.Unmarshal(told.body, &report) != nil || len(report.Loads) != size {
		return 0
	}
	numbers := make([]int, 0, size)
	for _, l := range report.Loads {
		if l.Rank == nil {
			return 0
		}
		numbers = append(numbers, *l.Rank)
	}
	slices.Sort(numbers)
	if first := numbers[0]; first > 0 && numbers[size-1] == first+size-1 && len(slices.Compact(numbers)) == size {
		return first
	}
	return 0
}
