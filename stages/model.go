package stages

import (
	"net/http"
	"strings"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages/forward"
	"github.com/smg-go/smg/workers"
)

// Models is what routes share to find out which model a request is for.
type Models struct {
	Registry *workers.Registry
	Required bool // a request must name its model on every route (--enable-igw)
}

// Model finds out the model: its canonical id if the client used an alias, which is then replaced in the body. A model that no
// worker serves is 404 model_not_found; when no worker is registered at all that is left to the stages behind. A request that
// names none, or "unknown", is for any model.
func Model(m *Models, kind Kind) pipeline.Stage { return &model{m, kind} }

type model struct {
	*Models
	kind Kind
}

var (
	_ pipeline.Stage      = (*model)(nil)
	_ pipeline.Contracted = (*model)(nil)
)

func (*model) Name() string { return "model" }

func (*model) Contract() pipeline.Contract {
	return pipeline.Contract{
		Needs: []pipeline.Fact{pipeline.Body, bodyFields},
		Gives: []pipeline.Fact{pipeline.Model},
	}
}

// anyModel is what a request may say that does not care.
const anyModel = "unknown"

func (s *model) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	f := bodyFields.Fill(x)
	x.Asked = s.asked(x, f)
	if s.Required && (strings.TrimSpace(x.Asked) == "" || x.Asked == anyModel) {
		return missingModel()
	}
	if x.Asked == "" || x.Asked == anyModel {
		return next(x)
	}
	canonical, known := s.Registry.Resolve(x.Asked)
	if !known && !s.anybody(x.Asked) {
		return modelNotFound(x.Asked)
	}
	x.Model, x.Served = canonical, known
	if canonical != x.Asked {
		s.rename(x, f, canonical)
	}
	return next(x)
}

// asked is the model that the client names, as far as the body has been read.
func (s *model) asked(x *pipeline.Exchange, f *fieldSet) (name string) {
	switch {
	case s.kind == Transcriptions:
		name = formModel(x, f)
	case x.Body.Streamed:
		name, _ = peekModel(x.Body.Peeked)
	default:
		name, _ = fieldString(x.Body.Bytes, f, fieldModel)
	}
	return name
}

// rename puts the canonical model into the body. One of which only the first bytes are there is JSON that nobody edits: where a model
// has an alias, it is read.
func (s *model) rename(x *pipeline.Exchange, f *fieldSet, canonical string) {
	switch {
	case s.kind == Transcriptions:
		renameFormModel(x, f, canonical)
	case !x.Body.Streamed:
		x.Body.Bytes = replaceModel(x.Body.Bytes, f, canonical)
	}
}

// anybody tells whether a model that no worker names may be served nevertheless: by a worker that takes every model, or, while
// there is no worker at all, by one that may come.
func (s *model) anybody(name string) bool {
	return s.Registry.Len() == 0 || s.Registry.Pool(name, workers.Regular, workers.HTTP).Len() > 0
}

func missingModel() *pipeline.Error {
	return &pipeline.Error{
		Status: http.StatusBadRequest, Code: "missing_model", Param: "model", Terminal: true,
		Message: "The request must name a model, because this gateway serves several",
	}
}

func uploadFailure(x *pipeline.Exchange, err error) error {
	if x.Client.Gone() {
		return pipeline.ErrClientGone
	}
	return forward.UploadFailure(err)
}
