# What a developer types. `just` alone lists it.

default:
    @just --list

# Build every package, and the three programs into bin/.
build:
    go build ./...
    mkdir -p bin
    go build -o bin/ ./cmd/...

# Every test, with the race detector.
test:
    go test -race ./...

# Discovery against a real Kubernetes control plane, which is built first: 11 minutes of CPU, once.
discovery:
    SMG_TEST_CLUSTER="$(.ci/testcluster)" go test -race ./discovery/... ./examples/kubernetes

# What a change must pass besides the tests: format, vet, static analysis.
lint:
    test -z "$(go tool gofumpt -l .)"
    go vet ./...
    go tool staticcheck ./...

# The gateway in front of built-in mock engines, on port 30000.
demo:
    go run ./cmd/smg demo

# Fuzz every parser of foreign bytes, each for a while.
fuzz time="30s":
    ./.ci/fuzz {{time}}

# Rewrite the golden files of tests.
golden:
    go test ./stages ./server ./telemetry ./cmd/smg -run "Page|Modules|EveryCounterIsRight" -update

# Install the gateways that `just bench` compares with, each into a folder of its own below .cache/peers.
peers:
    cmd/bench/peers.sh {{env('SMG_BENCH_PEERS', '.cache/peers')}}

# The benchmarks of the code, then side by side with other proxies and gateways (about 40 minutes on a quiet machine).
bench:
    go test -run - -bench . -benchmem ./...
    go run ./cmd/bench overhead
    go run ./cmd/bench stream
    go run ./cmd/bench faults
    SMG_TEST_CLUSTER="$(.ci/testcluster)" go run ./cmd/bench discovery

# smg in front of real engines, which are installed below .cache/engines first (6 GB).
engines:
    examples/engines/check.sh

# The recipes of CONTRIBUTING.md, each followed on a scratch copy.
recipes:
    .ci/recipes

# What the Dockerfile builds, without a daemon.
image-check:
    SMG_TEST_IMAGE=1 go test -timeout 30m -run '^TestImages$' ./examples/compose

# smg, two mock engines, Prometheus and Grafana in containers.
compose:
    docker compose -f examples/compose/compose.yaml up --build

# All that CI does.
ci:
    .ci/run
