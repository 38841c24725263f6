package server

// RecoveryConfig says what becomes of workers whose health checks have failed for long.
type RecoveryConfig struct {
	RemoveUnhealthyWorkers *bool `name:"remove-unhealthy-workers" aliases:"worker-auto-recovery" negatable:"" help:"Remove workers that reach the state failed, so that whoever added them may add them anew. Off: they stay, are probed on and come back by themselves. Unset: on with service discovery, else off."`
}

// RemovesUnhealthy tells whether failed workers are removed; discovered tells whether workers are found by discovery, which adds them
// anew.
func (c *RecoveryConfig) RemovesUnhealthy(discovered bool) bool {
	if c.RemoveUnhealthyWorkers != nil {
		return *c.RemoveUnhealthyWorkers
	}
	return discovered
}
