package main

import (
	"fmt"
	"os"
	"strings"
)

// maxConnections is how many connections each proxy is told to allow; more than any load opens.
const maxConnections = 8192

// nginxProxy is nginx as one would put it in front of engines: connections to the engine are kept, requests are read before
// they are passed on (as the gateways do), answers are passed on as they come.
func nginxProxy(s site) string {
	return nginxConfig(fmt.Sprintf(`
	upstream engine { server %s; keepalive 1024; keepalive_requests 1000000000; keepalive_timeout 600s; }
	server {
		listen 127.0.0.1:%d backlog=4096;
		location / {
			proxy_pass http://engine;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_request_buffering on;
			proxy_buffering off;
			proxy_read_timeout 600s;
		}
	}`, s.engine, s.port))
}

// nginxEngine is an engine that answers at once with chatAnswer, when it has read the request.
//
// A bare "return" would answer before that and leave the rest of the body to be thrown away, which no engine does and some
// clients take for a reason to close the connection. It is mirror that reads the body; the file that then is not found leads
// to the answer.
func nginxEngine(s site) string {
	var routes, addresses strings.Builder
	for i := range max(1, s.hosts) {
		fmt.Fprintf(&addresses, "\t\tlisten %s:%d backlog=4096;\n", loopback(i), s.port)
	}
	for path, text := range answers {
		fmt.Fprintf(&routes, "\t\tlocation = %s { return 200 '%s'; }\n", path, text)
	}
	return nginxConfig(fmt.Sprintf(`
	server {
%s		root %s/none;
		log_not_found off;
%s
		location = /v1/chat/completions { mirror /sink; mirror_request_body on; error_page 404 405 = @answer; }
		location = /sink { internal; return 204; }
		location @answer { return 200 '%s'; }
	}`, addresses.String(), s.dir, routes.String(), chatAnswer))
}

// chatAnswer is a whole OpenAI chat answer of usual length.
const chatAnswer = `{"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion","created":1700000000,"model":"m",` +
	`"choices":[{"index":0,"message":{"role":"assistant","content":"A gateway in front of inference engines should be invisible: it ` +
	`picks an engine, passes the request on, and relays what comes back as it comes back.","refusal":null,"annotations":null,"audio":null,` +
	`"function_call":null,"tool_calls":[],"reasoning_content":null},"logprobs":null,"finish_reason":"stop","stop_reason":null}],` +
	`"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":24,"total_tokens":56,"completion_tokens":32,` +
	`"prompt_tokens_details":null},"prompt_logprobs":null,"kv_transfer_params":null}`

func nginxConfig(http string) string {
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;\n" // else the workers could not use the temporary folder
	}
	return user + fmt.Sprintf(`daemon off;
worker_processes auto;
worker_rlimit_nofile %d;
pid pid;
error_log stderr error;
events { worker_connections %d; }
http {
	access_log off;
	default_type application/json;
	tcp_nodelay on;
	keepalive_requests 1000000000;
	keepalive_timeout 600s;
	client_max_body_size 0;
	client_body_buffer_size 1m;
	client_body_temp_path body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
%s
}
`, 2*maxConnections, maxConnections, http)
}

func haproxyConfig(s site) string {
	return fmt.Sprintf(`global
	maxconn %d
defaults
	mode http
	maxconn %[1]d
	timeout connect 5s
	timeout client 600s
	timeout server 600s
	option http-keep-alive
	option http-no-delay
	http-reuse always
frontend in
	bind 127.0.0.1:%d backlog 4096
	default_backend engine
backend engine
	server e %s
`, maxConnections, s.port, s.engine)
}

func caddyConfig(s site) string {
	return fmt.Sprintf(`{
	admin off
	auto_https off
	persist_config off
	storage file_system %q
	log {
		level ERROR
	}
}
http://127.0.0.1:%d {
	bind 127.0.0.1
	reverse_proxy %s {
		flush_interval -1
		transport http {
			keepalive_idle_conns 1024
			keepalive_idle_conns_per_host 1024
		}
	}
}
`, s.dir, s.port, s.engine)
}

// traefikConfig is the part with the routes; the rest are arguments.
func traefikConfig(s site) string {
	return fmt.Sprintf(`http:
  routers:
    all:
      rule: PathPrefix("/")
      service: engine
  services:
    engine:
      loadBalancer:
        serversTransport: kept
        servers:
          - url: http://%s
  serversTransports:
    kept:
      maxIdleConnsPerHost: 1024
`, s.engine)
}

func traefikArgs(s site) []string {
	return []string{
		fmt.Sprintf("--entryPoints.web.address=127.0.0.1:%d", s.port),
		"--providers.file.filename=" + s.config,
		"--providers.file.watch=false",
		"--log.level=ERROR",
		"--global.checkNewVersion=false",
		"--global.sendAnonymousUsage=false",
	}
}
