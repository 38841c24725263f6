package server

// LogConfig says what is logged, how, and where to.
type LogConfig struct {
	LogLevel string `name:"log-level" default:"info" enum:"trace,debug,info,warn,error" help:"Least level that is logged: ${enum}."`
	LogDir   string `name:"log-dir" placeholder:"DIR" help:"Directory for log files, made if it is missing. Unset: standard output alone."`
	LogJSON  bool   `name:"log-json" help:"Log JSON lines, and print no banner."`
}
