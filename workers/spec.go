package workers

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
)

// Spec is what a worker is registered with: the body of POST /workers, or what the gateway makes of a flag. [NewSpec] and
// [ParseSpec] fill in the defaults.
type Spec struct {
	URL            string            `json:"url"`
	Models         []Card            `json:"models,omitempty"` // none: takes every model. The first card counts
	WorkerType     Type              `json:"worker_type"`
	ConnectionMode Mode              `json:"connection_mode"` // set by New: the URL's scheme decides
	RuntimeType    Runtime           `json:"runtime_type"`    // Unspecified: found out at registration
	Provider       string            `json:"provider,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Priority       uint32            `json:"priority"` // stored and returned; no policy reads it
	Cost           float32           `json:"cost"`     // stored and returned; no policy reads it
	APIKey         string            `json:"-"`        // the worker's own key; never shown, see String

	BootstrapPort *uint16 `json:"bootstrap_port,omitempty"` // of a prefill or encode worker
	DPBaseURL     string  `json:"dp_base_url,omitempty"`
	DPRank        *int    `json:"dp_rank,omitempty"`
	DPSize        *int    `json:"dp_size,omitempty"`
	KVConnector   string  `json:"kv_connector,omitempty"`
	KVRole        string  `json:"kv_role,omitempty"`
	KVEngineID    string  `json:"kv_engine_id,omitempty"`
	KVBlockSize   *uint32 `json:"kv_block_size,omitempty"` // tokens

	Health     *HealthSpec     `json:"health,omitempty"`
	HTTPPool   *HTTPPoolSpec   `json:"http_pool,omitempty"`
	Resilience *ResilienceSpec `json:"resilience,omitempty"`
	Overload   *OverloadSpec   `json:"overload,omitempty"`

	MaxConnectionAttempts   uint32  `json:"max_connection_attempts"` // informational
	LoadMonitorIntervalSecs *uint32 `json:"load_monitor_interval_secs,omitempty"`
}

// NewSpec is the spec of a worker of which only the URL is known.
func NewSpec(url string) Spec {
	return Spec{URL: url, Priority: 50, Cost: 1, MaxConnectionAttempts: 20}
}

// BodyError says why a body as a whole is no spec.
type BodyError struct{ Reason string }

func (e *BodyError) Error() string { return "Request body " + e.Reason }

// ParseSpec reads a spec as POST and PUT /workers take it. Fields that it does not know are ignored. The error is one sentence
// for the client: a [*BodyError], a [*FieldError] or a [*URLError].
func ParseSpec(body []byte) (Spec, error) {
	fields, err := objectOf(body)
	if err != nil {
		return Spec{}, err
	}
	s := specOf(&object{fields: fields, err: &err})
	if err != nil {
		return Spec{}, err
	}
	if _, err := ParseEndpoint(s.URL); err != nil {
		return Spec{}, err
	}
	return s, nil
}

func specOf(o *object) Spec {
	s := NewSpec("")
	if raw, there := o.fields["url"]; !there || string(raw) == "null" {
		o.fail("url", "it is required")
	}
	s.URL = o.text("url")
	for _, m := range o.each("models") {
		s.Models = append(s.Models, cardOf(m))
	}
	s.WorkerType, _ = choice[Type](o, "worker_type", types)
	for _, name := range []string{"runtime", "runtime_type"} { // the second is the name, and wins
		if r, ok := choice[Runtime](o, name, runtimes); ok {
			s.RuntimeType = r
		}
	}
	s.Provider = o.text("provider")
	s.Labels = labelsOf(o)
	if p := o.count("priority", 0); p != nil {
		s.Priority = *p
	}
	if c, ok := read[float32](o, "cost", "a number", nil); ok {
		s.Cost = c
	}
	s.APIKey = o.text("api_key")
	s.BootstrapPort = whole[uint16](o, "bootstrap_port", 0, math.MaxUint16)
	s.KVConnector, s.KVRole, s.KVEngineID = o.text("kv_connector"), o.text("kv_role"), o.text("kv_engine_id")
	s.KVBlockSize = o.count("kv_block_size", 1)
	s.Health, s.HTTPPool = healthOf(o.inside("health")), httpPoolOf(o.inside("http_pool"))
	s.Resilience, s.Overload = resilienceOf(o.inside("resilience")), overloadOf(o.inside("overload"))
	if n := o.count("max_connection_attempts", 0); n != nil {
		s.MaxConnectionAttempts = *n
	}
	s.LoadMonitorIntervalSecs = o.count("load_monitor_interval_secs", 0)
	return s
}

// Clone is a copy that shares no map or list with the original.
func (s Spec) Clone() Spec {
	s.Labels = maps.Clone(s.Labels)
	s.Models = slices.Clone(s.Models)
	for i := range s.Models {
		s.Models[i].Aliases = slices.Clone(s.Models[i].Aliases)
	}
	return s
}

// String names the worker for people; the API key is masked.
func (s Spec) String() string {
	key := "no api_key"
	if s.APIKey != "" {
		key = "api_key ***"
	}
	return fmt.Sprintf("%s (%s, %s, %s)", s.URL, s.WorkerType, s.RuntimeType, key)
}

// GoString is String: %#v must not show the API key either.
func (s Spec) GoString() string { return s.String() }

// LogValue is the spec as a group of attributes, with the API key masked.
func (s Spec) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("url", s.URL), slog.String("worker_type", s.WorkerType.String()),
		slog.String("runtime_type", s.RuntimeType.String()), slog.String("model", s.modelID()),
	}
	if s.APIKey != "" {
		attrs = append(attrs, slog.String("api_key", "***"))
	}
	return slog.GroupValue(attrs...)
}

// modelID is the model that the worker serves: the first name that is not empty. "" takes every model.
func (s *Spec) modelID() string {
	if len(s.Models) > 0 && s.Models[0].ID != "" {
		return s.Models[0].ID
	}
	for _, label := range []string{"served_model_name", "model_id", "model_path"} {
		if id := s.Labels[label]; id != "" {
			return id
		}
	}
	return ""
}

func (s *Spec) aliases() []string {
	var names []string
	for _, c := range s.Models {
		names = append(names, c.Aliases...)
	}
	return names
}
