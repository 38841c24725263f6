# What a developer types. `just` alone lists it.

default:
    @just --list

# Build every package and the three programs into bin/.
build:
    go build ./...
    go build -o bin/ ./cmd/...

# Every test, with the race detector.
test:
    go test -race ./...

# What a change must pass besides the tests: format, vet, static analysis.
lint:
    test -z "$(go tool gofumpt -l .)"
    go vet ./...
    go tool staticcheck ./...

# Rewrite the documents that are rendered from the code.
docs:
    go test ./server -run Documents -update

# The gateway in front of three mock engines, on port 30000.
run:
    ./examples/local/run.sh

# Fuzz every parser of foreign bytes for a while each.
fuzz time="30s":
    ./.ci/fuzz {{time}}

# Install the gateways that `just bench` compares with, into .cache/peers.
peers:
    ./cmd/bench/peers.sh .cache/peers

# All benchmarks of the code, then side by side with other proxies and gateways.
bench:
    go test -run - -bench . -benchmem ./...
    go run ./cmd/bench overhead
    go run ./cmd/bench stream
