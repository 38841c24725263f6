package server

// WorkerConfig says where the gateway listens and which workers it starts with.
type WorkerConfig struct {
	Host                 string   `name:"host" default:"0.0.0.0" help:"Address or host name that the main listener binds. IPv6 with or without brackets."`
	Port                 int      `name:"port" default:"30000" help:"Port of the API, 1 to 65535."`
	HealthCheckPort      *int     `name:"health-check-port" placeholder:"PORT" help:"Port, 1 to 65535, of an extra listener on the same host that serves /liveness, /readiness and /health alone, out of the way of request load. Unset: none."`
	WorkerURLs           []string `name:"worker-urls" type:"multi" placeholder:"URL ..." help:"Workers to register at start: http://, https://, grpc://, grpcs:// or ipc:// URLs."`
	StartupTimeout       Seconds  `name:"worker-startup-timeout-secs" default:"1800" help:"Registration of a worker that does not answer is given up after this many seconds (at least 1)."`
	StartupDelay         Seconds  `name:"worker-startup-delay" default:"0" help:"Seconds to wait before a new worker is probed for the first time."`
	StartupCheckInterval Seconds  `name:"worker-startup-check-interval" default:"30" help:"Seconds between probes of a worker that has not answered yet (at least 1)."`
}

func defaultWorker() WorkerConfig {
	return WorkerConfig{Host: "0.0.0.0", Port: 30000, StartupTimeout: 1800, StartupCheckInterval: 30}
}

// Address is what the main listener binds, as host:port.
func (c *WorkerConfig) Address() string { return hostPort(c.Host, c.Port) }

// HealthCheckAddress is what the probe listener binds, as host:port; it is empty if there is none.
func (c *WorkerConfig) HealthCheckAddress() string {
	if c.HealthCheckPort == nil {
		return ""
	}
	return hostPort(c.Host, *c.HealthCheckPort)
}

// StartupURLs returns the workers to register at start, in the order given and each once.
func (c *WorkerConfig) StartupURLs() []string {
	urls, _ := c.splitURLs()
	return urls
}

// splitURLs separates the first mention of each worker from the repeated ones. With and without a slash at the end is one worker.
func (c *WorkerConfig) splitURLs() (unique, repeated []string) {
	seen := make(map[string]bool, len(c.WorkerURLs))
	for _, url := range c.WorkerURLs {
		id := workerIdentity(url)
		if seen[id] {
			repeated = append(repeated, url)
			continue
		}
		seen[id] = true
		unique = append(unique, url)
	}
	return unique, repeated
}

func (c *WorkerConfig) check(found *violations) {
	if !validHost(c.Host) {
		found.add("--host", c.Host, "must be an IP address or a host name")
	}
	found.whole("--port", int64(c.Port), 1, maxPort)
	if c.HealthCheckPort != nil {
		found.whole("--health-check-port", int64(*c.HealthCheckPort), 1, maxPort)
	}
	for _, url := range c.WorkerURLs {
		if err := validateWorkerURL(url); err != nil {
			found.add("--worker-urls", withoutCredentials(url), err.Error())
		}
	}
	found.seconds("--worker-startup-timeout-secs", c.StartupTimeout, 1)
	found.seconds("--worker-startup-delay", c.StartupDelay, 0)
	found.seconds("--worker-startup-check-interval", c.StartupCheckInterval, 1)
}
