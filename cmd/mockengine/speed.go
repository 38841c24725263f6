package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/smg-go/smg/cmd/mockengine/engine"
)

// Speed is the flags that make a model of an engine, in the place of fixed times. What is not given has the default that its help names, once one of them is.
type Speed struct {
	PrefillTPS    int           `name:"prefill-tps" help:"Prompt tokens a second (16000). This and the flags below make a model of an engine: a queue, a batch, a prefix cache; --itl is the least time of its step (20ms)." placeholder:"N"`
	BatchSlowdown time.Duration `help:"Added to a step for each request that decodes (250us)." placeholder:"TIME"`
	MaxRunning    int           `help:"Requests that run at once (128)." placeholder:"N"`
	KVTokens      int           `name:"kv-tokens" help:"Tokens that the KV cache holds (400000)." placeholder:"N"`
	PageSize      int           `help:"Tokens of a page of it (16)." placeholder:"N"`
	PrefillChunk  int           `help:"Prompt tokens of one step (1024)." placeholder:"N"`
}

// model is the model that was asked for; nil without one.
func (s *Speed) model(itl time.Duration) *engine.ModelConfig {
	if *s == (Speed{}) {
		return nil
	}
	return &engine.ModelConfig{
		PrefillTPS: s.PrefillTPS, ITL: itl, BatchSlowdown: s.BatchSlowdown, MaxRunning: s.MaxRunning,
		KVTokens: s.KVTokens, PageSize: s.PageSize, PrefillChunk: s.PrefillChunk,
	}
}

// check is the first thing about a model that cannot be.
func (s *Speed) check() error {
	if min(s.PrefillTPS, s.MaxRunning, s.KVTokens, s.PageSize, s.PrefillChunk) < 0 || s.BatchSlowdown < 0 {
		return errors.New("the flags of the model must not be negative")
	}
	c := engine.ModelConfig{KVTokens: s.KVTokens, PageSize: s.PageSize}.Complete()
	if c.KVTokens < c.PageSize {
		return fmt.Errorf("--kv-tokens %d is less than a page of %d", c.KVTokens, c.PageSize)
	}
	return nil
}
