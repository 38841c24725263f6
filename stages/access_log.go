package stages

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/smg-go/smg/pipeline"
	"github.com/smg-go/smg/telemetry"
)

// AccessLog writes a line when a request arrives and one when its response is over; of a stream, a second one at debug, with the
// whole time, the bytes and tokens, and whether the client left. probe is for routes that are asked every few seconds: their lines
// are at debug. A disabled line costs one atomic load, and nothing is counted for it.
func AccessLog(log *slog.Logger, probe bool) pipeline.Stage {
	return &accessLog{
		requests: telemetry.WithTarget(log, "smg::request"), responses: telemetry.WithTarget(log, "smg::response"), probe: probe,
	}
}

type accessLog struct {
	requests, responses *slog.Logger
	probe               bool
}

// requestInfo is what every log line of a request says about it.
var requestInfo = pipeline.NewFact[telemetry.RequestInfo]("request_info")

var (
	_ pipeline.Stage      = (*accessLog)(nil)
	_ pipeline.Contracted = (*accessLog)(nil)
)

func (*accessLog) Name() string { return "access_log" }

func (*accessLog) Contract() pipeline.Contract {
	return pipeline.Contract{Needs: []pipeline.Fact{pipeline.RequestID}, Gives: []pipeline.Fact{requestInfo}}
}

func (s *accessLog) Handle(x *pipeline.Exchange, next pipeline.Next) error {
	info := requestInfo.Fill(x)
	info.Method, info.Path, info.Query = x.Client.Method(), x.Client.Path(), x.Client.Query()
	info.Version, info.RequestID = x.Client.Protocol(), x.ID

	s.write(x, s.requests, s.at(slog.LevelInfo), "started processing request", info)
	err := s.conclude(x, next)
	s.finish(x, info, err)
	s.finishStream(x, info, err)
	return err
}

func (s *accessLog) at(level slog.Level) slog.Level {
	if s.probe {
		return slog.LevelDebug
	}
	return level
}

func (s *accessLog) write(x *pipeline.Exchange, log *slog.Logger, level slog.Level, message string, info *telemetry.RequestInfo, attrs ...slog.Attr) {
	if ctx := context.Background(); log.Enabled(ctx, level) {
		if info.TraceID == "" {
			info.TraceID, info.SpanID = x.TraceIDs()
		}
		log.LogAttrs(ctx, level, message, append(attrs, info.Attr())...)
	}
}

// finish writes the line about the end. A response that broke behind its head is an error whatever its status was.
func (s *accessLog) finish(x *pipeline.Exchange, info *telemetry.RequestInfo, err error) {
	status, code := x.Result(err)
	level, message := s.verdict(x, status, err)
	if !s.responses.Enabled(context.Background(), level) {
		return
	}
	end := x.HeadAt()
	if end.IsZero() {
		end = time.Now()
	}
	info.SetHead(status, end.Sub(x.Arrived))
	attrs := make([]slog.Attr, 0, 8)
	if x.Asked != "" || x.Number > 0 {
		attrs = append(attrs, slog.Int("attempts", x.Number), slog.String("model", x.Model), slog.Bool("streaming", x.Body.Stream))
	}
	if w := x.Target(); w != nil {
		attrs = append(attrs, slog.String("worker", w.URL()))
	}
	if code != "" {
		attrs = append(attrs, slog.String("error_code", code))
	}
	if cause := errors.Unwrap(err); cause != nil {
		attrs = append(attrs, slog.Any("cause", cause))
	}
	s.write(x, s.responses, level, message, info, attrs...)
}

func (s *accessLog) verdict(x *pipeline.Exchange, status int, err error) (slog.Level, string) {
	switch {
	case s.probe:
		return slog.LevelDebug, "finished probe request"
	case status == pipeline.ErrClientGone.Status:
		return slog.LevelInfo, "client left before the end of the response"
	case err != nil && x.Status() != 0 && x.Status() < 400:
		return slog.LevelError, "response stream failed after the head was sent"
	case status >= 500:
		return slog.LevelError, "request failed with server error"
	case status >= 400:
		return slog.LevelWarn, "request failed with client error"
	}
	return slog.LevelInfo, "finished processing request"
}
