# A policy that always chooses the last worker.

replace stages/policy/conformance_test.go '"random", "round_robin",' '"random", "last", "round_robin",'
replace stages/policy/conformance_test.go '"random": 0,' '"random": 0, "last": 0,'
red "elements differ" go test ./stages/policy -run 'Contract|ByName'

insert stages/policy/names.go after '{"random", func(' <<'GO'
	{"last", func(Settings, *slog.Logger) Policy { return Last() }},
GO
red "undefined: Last" go test ./stages/policy -run 'Contract|ByName'

cat >stages/policy/last.go <<'GO'
package policy

import (
	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/workers"
)

// Last always chooses the last worker of the list. It reads nothing and keeps nothing.
func Last() Policy { return last{} }

type last struct{ stateless }

var _ Policy = last{}

func (last) Name() string { return "last" }

// Select needs no case for an empty list: its last place is -1.
func (last) Select(_ *pipeline.Exchange, among workers.List) int { return among.Len() - 1 }
GO
green go test ./stages/policy -run 'Contract|ByName'

replace cmd/smg/cli_test.go '"random","round_robin",' '"random","last","round_robin",'
replace cmd/smg/docs_test.go '`random`, `round_robin`,' '`random`, `last`, `round_robin`,'
red 'last' go test ./cmd/smg -run "CannotBeUnderstood|ValuesOfFlags"

replace server/config_policy.go 'enum:"random,round_robin,' 'enum:"random,last,round_robin,'
red "Page" go test ./cmd/smg -run "$pages|CannotBeUnderstood|ValuesOfFlags"
golden
green go test ./cmd/smg -run "$pages|CannotBeUnderstood|ValuesOfFlags"
green go run ./cmd/smg config check --policy last
