package stages

import (
	"net/http"

	"github.com/smg-go/smg/pipeline"
)

// ControlAuth lets operators in, who bring a key or a token as "Authorization: Bearer <it>". Others are 401 invalid_api_key, and
// those that are known but no admins 403 admin_role_required. Every decision is told to decided, which may be nil: who asked, and
// with a denial why; "" for none.
//
// It stands behind payload_limit, and before what reads the body. What it has checked is sent to no worker. Cost: as of auth; a token
// is a signature to verify, and now and then the issuer is asked for its keys.
func ControlAuth(o *Operators, decided func(x *pipeline.Exchange, p Principal, denied string)) pipeline.Stage {
	return &controlAuth{o, decided}
}

type controlAuth struct {
	operators *Operators
	decided   func(x *pipeline.Exchange, p Principal, denied string)
}

// operator is who asks on a route for operators.
var operator = pipeline.NewFact[Principal]("operator")

// OperatorOf is who asks on a route for operators; anonymous where everybody may.
func OperatorOf(x *pipeline.Exchange) Principal {
	if p, known := operator.Lookup(x); known {
		return p
	}
	return anonymous
}

var (
	_ pipeline.Stage      = (*controlAuth)(nil)
	_ pipeline.Contracted = (*controlAuth)(nil)
)

func (*controlAuth) Name() string { return "control_auth" }

func (s *controlAuth) Contract() pipeline.Contract {
	c := pipeline.Contract{Gives: []pipeline.Fact{operator}}
	if j := s.operators.tokens; j != nil {
		c.Uses = []pipeline.Dependency{j}
	}
	return c
}

func (s *controlAuth) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	p, d := s.operators.admit(bearerOf(x.Client))
	if d != nil {
		s.tell(x, p, d)
		return d.refusal()
	}
	s.tell(x, p, &denial{})
	operator.Set(x, p)
	x.Withheld = true
	return next(x)
}

func (s *controlAuth) tell(x *pipeline.Exchange, p Principal, d *denial) {
	if s.decided == nil {
		return
	}
	if d.details != "" {
		s.decided(x, p, d.message+": "+d.details)
		return
	}
	s.decided(x, p, d.message)
}

// refusal is the answer to somebody who may not ask.
func (d *denial) refusal() *pipeline.Error {
	if d.status == http.StatusForbidden {
		return &pipeline.Error{Status: http.StatusForbidden, Code: "admin_role_required", Message: d.message, Terminal: true}
	}
	return unauthorized(d.message, controlRealm)
}
