# One static binary, and beside it only the certificates that https:// workers are checked with.
#
#   docker build -t smg .                                 the gateway
#   docker build -t smg-mockengine --target mockengine .  a fake engine, for trials without a GPU: see examples/compose
#
# A release says what it is; what is left out is the version of the source and "unknown":
#
#   docker build -t smg:1.2.3 --build-arg VERSION=1.2.3 --build-arg COMMIT="$(git rev-parse HEAD)" \
#     --build-arg BUILD_TIME="$(date -u +%FT%TZ)" .
#
# The tests in examples/compose follow these instructions without a daemon.

FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src

# The modules first: they change less often than the source, and are a layer of their own.
COPY go.mod go.sum ./
RUN go mod download

COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ARG COMMIT
ARG BUILD_TIME
RUN --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="$TARGETARCH" go build -trimpath -buildvcs=false -ldflags "-s -w \
        ${VERSION:+-X github.com/smg-go/smg/server.Version=$VERSION} \
        ${COMMIT:+-X github.com/smg-go/smg/server.Commit=$COMMIT} \
        ${BUILD_TIME:+-X main.buildTime=$BUILD_TIME}" \
    -o /out/ ./cmd/smg ./cmd/mockengine

FROM scratch AS mockengine
COPY --from=build /out/mockengine /mockengine
USER 65532:65532
EXPOSE 8000
ENTRYPOINT ["/mockengine"]

# The last stage is what a build without --target makes. Its entry point takes flags without a command: that starts the gateway.
FROM scratch AS smg
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/smg /smg
USER 65532:65532
EXPOSE 30000 29000
ENTRYPOINT ["/smg"]
