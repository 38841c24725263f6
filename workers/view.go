package workers

import (
	"encoding/json"
	"strconv"
)

// View is a worker as the admin API shows it. It has no API key.
type View struct {
	ID      string `json:"id"`
	ModelID string `json:"model_id,omitempty"` // absent for a worker that takes every model
	Spec
	IsHealthy  bool       `json:"is_healthy"` // the status is ready, cordoned or not
	Status     Status     `json:"status"`
	Cordoned   bool       `json:"cordoned,omitempty"` // gets no new request although its status is ready
	Load       int64      `json:"load"`               // requests in flight from this gateway
	HTTP2      bool       `json:"http2"`
	EngineLoad *Report    `json:"engine_load,omitempty"` // its last load report; absent if it has none
	JobStatus  *JobStatus `json:"job_status,omitempty"`
}

// View is the worker as it is now.
func (w *Worker) View() View {
	v := View{
		ID: w.id.String(), ModelID: w.model, Spec: w.spec,
		Status: w.Status(), Cordoned: w.Cordoned(), Load: w.InFlight(), HTTP2: w.settings.HTTPPool.HTTP2,
	}
	v.EngineLoad = w.Report()
	v.IsHealthy = v.Status == Ready
	v.APIKey = ""
	return v
}

// AppendView appends the JSON of [Worker.View] as encoding/json makes it, at a fraction of the cost: what a worker is is encoded
// once, what its last load report says once for each report. It takes no lock.
func (w *Worker) AppendView(b []byte) ([]byte, error) {
	fixed, err := w.fixedView()
	if err != nil {
		return b, err
	}
	status := w.Status()
	b = append(b, fixed...)
	b = strconv.AppendBool(append(b, `,"is_healthy":`...), status == Ready)
	b = append(append(append(b, `,"status":"`...), status.String()...), '"')
	if w.Cordoned() {
		b = append(b, `,"cordoned":true`...)
	}
	b = strconv.AppendInt(append(b, `,"load":`...), w.InFlight(), 10)
	b = strconv.AppendBool(append(b, `,"http2":`...), w.settings.HTTPPool.HTTP2)
	if r := w.Report(); r != nil {
		load, err := w.reportView(r)
		if err != nil {
			return b, err
		}
		b = append(append(b, `,"engine_load":`...), load...)
	}
	return append(b, '}'), nil
}

// fixedView is the beginning of the view, which never changes: an object without its closing brace.
func (w *Worker) fixedView() ([]byte, error) {
	if known := w.shown.Load(); known != nil {
		return *known, nil
	}
	js, err := json.Marshal(struct {
		ID      string `json:"id"`
		ModelID string `json:"model_id,omitempty"`
		Spec
	}{w.id.String(), w.model, w.spec})
	if err != nil {
		return nil, err
	}
	js = js[:len(js)-1]
	w.shown.Store(&js)
	return js, nil
}

// encodedReport is a load report and its JSON.
type encodedReport struct {
	report *Report
	json   []byte
}

func (w *Worker) reportView(r *Report) ([]byte, error) {
	if known := w.shownReport.Load(); known != nil && known.report == r {
		return known.json, nil
	}
	js, err := json.Marshal(r)
	if err == nil {
		w.shownReport.Store(&encodedReport{r, js})
	}
	return js, err
}
