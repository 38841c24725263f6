package server

import (
	"log/slog"

	"github.com/smg-go/smg/telemetry"
)

// LogConfig says what is logged, how, and where to.
type LogConfig struct {
	LogLevel string `name:"log-level" default:"info" enum:"trace,debug,info,warn,error" help:"Least level that is logged: ${enum}."`
	LogDir   string `name:"log-dir" placeholder:"DIR" help:"Directory for log files, made if it is missing. Unset: standard output alone."`
	LogJSON  bool   `name:"log-json" help:"Log JSON lines, and print no banner."`
}

// Options are what the logger of this configuration is made with.
func (c *LogConfig) Options() telemetry.LogOptions {
	level, err := telemetry.ParseLevel(c.LogLevel)
	if err != nil {
		level = slog.LevelInfo // the configuration was checked
	}
	return telemetry.LogOptions{Level: level, JSON: c.LogJSON, Dir: c.LogDir}
}
