package server

import (
	"fmt"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/telemetry"
)

// RecordConfig says whether requests are recorded for a simulation.
type RecordConfig struct {
	Record string `name:"record" placeholder:"FILE" help:"Append a line about each inference request to this file, for smg simulate: when it came, lengths in tokens, and salted hashes of its prompt and routing key, never text. All bodies are read for it. Unset: nothing is recorded."`
}

// recording makes the recorder. Who records needs prompts, whatever the policy reads.
func (g *gateway) recording() {
	g.recorder = stages.NewRecorder(g.cfg.Record, g.metrics.Records, telemetry.WithTarget(g.log, "smg::record"))
	if g.cfg.Record != "" {
		g.demand.Raise(pipeline.WantText)
	}
}

// openRecord opens the file that requests are recorded to, if there is to be one.
func (g *gateway) openRecord() error {
	if g.cfg.Record == "" {
		return nil
	}
	if err := g.recorder.Open(); err != nil {
		return fmt.Errorf("cannot open the file of --record: %w", err)
	}
	return nil
}
