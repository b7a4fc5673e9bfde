#!/bin/sh
# Packages of target/release/anode, which is there already: nothing is compiled here. Into target/package: a .deb, another with the debug
# symbols, a wheel of the Python client, and an image. As `package.sh deb` the first two alone.
set -eu
cd "$(dirname "$0")/.."
version=3.8.0
cargo="${CARGO:-cargo}"
out=target/package
[ -x target/release/anode ] || { echo "there is no target/release/anode: cargo build --release --bin anode" >&2; exit 1; }
if ! cargo-deb --version 2>/dev/null | grep -qw "$version"; then
    echo "installing cargo-deb $version"
    $cargo install cargo-deb --version "$version" --locked --debug --quiet
fi
rm -rf "$out"
mkdir -p "$out"
./target/release/anode manual "$out/share"
gzip -9n "$out"/share/man/man1/*
# By itself, and not through cargo, which may be at work: it reads metadata and strips a copy.
cargo-deb --package anode-net --no-build --quiet --output "$out/"
[ "${1:-}" = deb ] && exit 0
python3 tools/wheel.py "$out"
if command -v buildah >/dev/null 2>&1; then
    sh tools/image.sh "$out"
else
    echo "no image: buildah is not here (apt install buildah)"
fi
ls -l "$out" | sed 1d
