package telemetry

import "sync/atomic"

// GatewayState is what a gateway knows of itself at a scrape.
type GatewayState struct {
	Ready       bool // what its readiness probe answers
	Draining    bool // it has been told to stop
	JobsWaiting int  // changes of the fleet that wait for their turn
	JobsWorking int  // those that are being made
}

// gatewayState writes the gauges of the gateway as a whole at the scrape, so that none of them can drift.
type gatewayState struct {
	read atomic.Pointer[func() GatewayState]
}

func newGatewayState(f *families) *gatewayState {
	g := &gatewayState{}
	f.gaugeFunc("smg_ready", "1 if the readiness probe answers that the gateway is ready.",
		func() float64 { return oneIf(g.now().Ready) })
	f.gaugeFunc("smg_draining", "1 from the first signal to stop.",
		func() float64 { return oneIf(g.now().Draining) })
	f.gaugeFunc("smg_job_queue_depth", "Changes of the fleet that wait for their turn.",
		func() float64 { return float64(g.now().JobsWaiting) })
	f.gaugeFunc("smg_job_queue_running", "Changes of the fleet that are being made.",
		func() float64 { return float64(g.now().JobsWorking) })
	return g
}

func (g *gatewayState) now() GatewayState {
	if read := g.read.Load(); read != nil {
		return (*read)()
	}
	return GatewayState{}
}

// SetState says where the state of the gateway is read from at the scrape. read is called at every scrape, several times, and must be
// quick.
func (m *Metrics) SetState(read func() GatewayState) { m.state.read.Store(&read) }
