package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"unicode"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/stages"
	"github.com/smg-go/smg/telemetry"
)

// auditLog is the record of who asked on the routes for operators, and of what they changed. nil keeps none.
type auditLog struct{ log *slog.Logger }

func newAuditLog(cfg *Config, log *slog.Logger) *auditLog {
	if cfg.DisableAuditLogging {
		return nil
	}
	return &auditLog{telemetry.WithTarget(log, "smg::audit")}
}

// decisions hears of every decision about who may ask; nil if nobody listens.
func (a *auditLog) decisions() func(x *pipeline.Exchange, p stages.Principal, denied string) {
	if a == nil {
		return nil
	}
	return func(x *pipeline.Exchange, p stages.Principal, denied string) {
		if denied != "" {
			a.write(x, p, "denied", denied)
			return
		}
		a.write(x, p, "success", "")
	}
}

// changes notes that a request has changed something, once it has: who it was, what it was answered. It stands behind what decides
// who may ask, if there is that.
func (a *auditLog) changes() pipeline.Stage {
	return pipeline.StageFunc("audit", pipeline.Contract{Needs: []pipeline.Fact{pipeline.RequestID}}, func(x *pipeline.Exchange, next pipeline.Next) error {
		err := next(x)
		if status := x.Status(); err == nil && status >= 200 && status < 300 {
			a.write(x, stages.OperatorOf(x), "success", fmt.Sprintf("changed: answered %d", status))
		}
		return err
	})
}

// isChange tells the routes for operators that change something.
func isChange(route string) bool {
	method, path, _ := strings.Cut(route, " ")
	return method != http.MethodGet && path != "/explain"
}

func (a *auditLog) write(x *pipeline.Exchange, p stages.Principal, outcome, details string) {
	ctx := context.Background()
	if !a.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	role := p.Role.String()
	if p.Method == "none" {
		role = "none"
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, "control_plane_audit",
		slog.String("principal", auditable(p.Name)), slog.String("auth_method", p.Method), slog.String("role", role),
		slog.String("method", auditable(x.Client.Method())), slog.String("path", auditable(x.Client.Path())),
		slog.String("outcome", outcome), slog.String("request_id", auditable(x.ID)), slog.String("details", auditable(details)))
}

// maxAudited is how many bytes of a value stand in a line of the audit log.
const maxAudited = 1024

// auditable is a value without characters that could end the line, or hide something in it, and not longer than maxAudited.
func auditable(value string) string {
	var b strings.Builder
	for _, r := range value {
		text := string(r)
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			text = fmt.Sprintf(`\u%04x`, r)
		}
		if b.Len()+len(text) > maxAudited {
			break
		}
		b.WriteString(text)
	}
	return b.String()
}
