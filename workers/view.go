package workers

// View is a worker as the admin API shows it. It has no API key.
type View struct {
	ID      string `json:"id"`
	ModelID string `json:"model_id,omitempty"` // absent for a worker that takes every model
	Spec
	IsHealthy  bool       `json:"is_healthy"` // the status is ready
	Status     Status     `json:"status"`
	Load       int64      `json:"load"` // requests in flight from this gateway
	HTTP2      bool       `json:"http2"`
	EngineLoad *Report    `json:"engine_load,omitempty"` // its last load report; absent if it has none
	JobStatus  *JobStatus `json:"job_status,omitempty"`
}

// View is the worker as it is now.
func (w *Worker) View() View {
	v := View{
		ID: w.id.String(), ModelID: w.model, Spec: w.spec,
		Status: w.Status(), Load: w.InFlight(), HTTP2: w.settings.HTTPPool.HTTP2,
	}
	v.EngineLoad = w.Report()
	v.IsHealthy = v.Status == Ready
	v.APIKey = ""
	return v
}
