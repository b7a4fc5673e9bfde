#!/bin/sh
# Installs what building and testing needs, or says in one line what to install.
set -eu
missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need clang clang
need wasm-ld lld
need cc gcc
need ip iproute2
need ethtool ethtool
need ping iputils-ping
need python3 python3
# Tests of the dissector for Wireshark, of completions, of metrics, of packages and beside a routing daemon are skipped without these, so
# they are installed where that is possible.
if [ "${1:-}" = test ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    need tshark tshark
    need tmux tmux
    need zsh zsh
    need fish fish
    need man man-db
    need lintian lintian
    need promtool prometheus
    need buildah buildah
    need bird bird2
    need xdp-loader xdp-tools
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
fi
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing"
    apt-get update -qq
    # shellcheck disable=SC2086 # one package a word
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "missing; install with: apt install$missing" >&2
    exit 1
fi
